//! Scratch.
use acestep_import::*;
use acestep_model::Checkpoint;
use burn_flex::Flex;
use std::time::Instant;
fn rss() -> String {
    let s = std::fs::read_to_string("/proc/self/status").unwrap();
    s.lines()
        .filter(|l| {
            l.starts_with("VmHWM")
                || l.starts_with("VmRSS")
                || l.starts_with("RssAnon")
                || l.starts_with("RssFile")
        })
        .collect::<Vec<_>>()
        .join(" ")
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "tok" {
        let text = std::fs::read_to_string(&a[3]).unwrap();
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        let t0 = Instant::now();
        let t = TextTokenizer::open(&Directory::Disk(a[2].clone().into())).unwrap();
        println!("open {:?} vocab {}", t0.elapsed(), t.vocabulary());
        let mut n = 0;
        for c in v["full"].as_array().unwrap() {
            let ids: Vec<u32> = serde_json::from_value(c["te_ids"].clone()).unwrap();
            assert_eq!(t.token_ids(c["text"].as_str().unwrap(), 1000000).unwrap(), ids, "{c}");
            n += 1;
        }
        println!("{n} ok");
        return;
    }
    let t0 = Instant::now();
    let f = open(&a[1], &Layout::new([]))
        .map_err(|e| {
            println!("{e}\n{:?}", e.hint());
            e
        })
        .unwrap();
    println!("open {:?} {} {}", t0.elapsed(), f.name(), rss());
    for p in Part::ALL {
        println!("{p} {:?}", f.size(p).unwrap());
    }
    let d = Default::default();
    let c: &dyn Checkpoint<Flex, Error = Error> = &f;
    for part in a[2].split(',') {
        let t0 = Instant::now();
        match part {
            "te" => drop(std::hint::black_box(c.text_encoder(&d).unwrap())),
            "cond" => drop(std::hint::black_box(c.conditioner(&d).unwrap())),
            "codec" => drop(std::hint::black_box(c.audio_codec(&d).unwrap())),
            "dit" => {
                let m = c.dit(&d).unwrap();
                println!("held {}", rss());
                drop(std::hint::black_box(m))
            }
            "vae" => drop(std::hint::black_box(c.vae_decoder(&d).unwrap())),
            "venc" => drop(std::hint::black_box(c.vae_encoder(&d).unwrap())),
            "sil" => println!("{:?}", c.silence_latent(&d).unwrap().dims()),
            "tok" => println!("{:?}", c.token_ids("a song", 256).unwrap()),
            _ => panic!(),
        }
        println!("{part} {:?} {}", t0.elapsed(), rss());
    }
}
