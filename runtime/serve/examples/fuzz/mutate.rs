//! Mutations of requests.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::corpus::{Content, FormPart, ID, Sample};

/// Random numbers, which a seed repeats.
///
/// Source: Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Ids of jobs and files that answers named.
#[derive(Debug, Default)]
pub(crate) struct Known(Vec<String>);

impl Known {
    /// Remembers ids of an answer.
    pub(crate) fn learn(&mut self, body: &[u8]) {
        let text = String::from_utf8_lossy(&body[..body.len().min(4000)]);
        let words = text.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
        for word in words.filter(|word| word.len() == 36 && *word != ID).take(2) {
            if self.0.len() < 200 {
                self.0.push(word.to_owned());
            } else {
                let at = word.bytes().map(usize::from).sum::<usize>() % 200;
                word.clone_into(&mut self.0[at]);
            }
        }
    }

    fn any(&self, random: &mut SplitMix64) -> String {
        if self.0.is_empty() { ID.to_owned() } else { random.of(&self.0).clone() }
    }
}

const TEXTS: [&str; 24] = [
    "",
    " ",
    "null",
    "true",
    "-1",
    "1e999",
    "NaN",
    "0x10",
    "../../etc/passwd",
    "/etc/passwd",
    "http://127.0.0.1/x",
    "file:///etc/passwd",
    "data:audio/wav;base64,AAAA",
    "data:;base64,%%%",
    "\u{0}",
    "\u{202e}ß水🎵",
    "[Verse]\n",
    "wav",
    "mp3",
    "opus",
    "cover",
    "lego",
    "99999999999999999999",
    "a,b,,c",
];
const KINDS: [&str; 12] = [
    "application/json",
    "application/vnd.x+json",
    "multipart/form-data; boundary=b",
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "multipart/form-data; boundary=\"b",
    "MULTIPART/FORM-DATA; boundary=b",
    "application/x-www-form-urlencoded",
    "text/plain",
    "application/octet-stream",
    "",
    "application/json; charset=latin-1",
];
const HEADERS: [(&str, &[&str]); 9] = [
    ("content-type", &KINDS),
    ("host", &["localhost:1", "evil.example", "127.0.0.1", "[::1]:80", "", ":"]),
    ("origin", &["null", "http://localhost", "https://evil.example", "://"]),
    ("authorization", &["Bearer ", "Bearer x", "Basic eDp5", "x", "Bearer another"]),
    ("range", &["bytes=0-", "bytes=-1", "bytes=9-3", "bytes=0-1,3-4", "x", "bytes=99999999999-"]),
    ("last-event-id", &["0", "-1", "x", "18446744073709551615"]),
    ("idempotency-key", &["", "one", "two", "\u{e9}"]),
    ("cookie", &["acestep_key=x", "acestep_key", ";;;", "a=b; acestep_key=a-long-random-text"]),
    ("upgrade", &["websocket"]),
];
const PIECES: [&[u8]; 8] = [b"--b", b"\r\n", b"\"", b"{", b"]", b"\0", b"\xff\xfe", b"%"];
const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"];

/// A value for a field.
fn value(random: &mut SplitMix64, known: &Known) -> Value {
    match random.below(16) {
        0 => Value::Null,
        1 => json!(random.below(2) == 1),
        2 => json!(random.next() as i64),
        3 => json!(random.next()),
        4 => json!(-1),
        5 => json!(0),
        6 => json!(f64::from_bits(random.next() & 0x7fef_ffff_ffff_ffff)),
        7 => json!(random.below(100)),
        8 => json!([]),
        9 => json!({}),
        10 => json!(vec![value(random, known), value(random, known)]),
        11 => json!({ random.of(&TEXTS).to_string(): value(random, known) }),
        12 => json!("x".repeat(random.below(5000))),
        13 => json!(known.any(random)),
        14 => (0..random.below(60)).fold(json!(1), |deep, _| json!([deep])),
        _ => json!(random.of(&TEXTS)),
    }
}

/// Changes one place of a value.
fn change(value_: &mut Value, keys: &[String], random: &mut SplitMix64, known: &Known) {
    match value_ {
        Value::Object(map) if !map.is_empty() && random.below(8) > 0 => {
            let own: Vec<String> = map.keys().cloned().collect();
            let key = random.of(&own).clone();
            match random.below(7) {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(random.of(keys).clone(), value(random, known))),
                2 => {
                    let moved = map.remove(&key).unwrap_or_default();
                    map.insert(random.of(keys).clone(), moved);
                }
                3 | 4 => drop(map.insert(key, value(random, known))),
                _ => change(&mut map[&key], keys, random, known),
            }
        }
        Value::Array(list) if !list.is_empty() && random.below(4) > 0 => {
            let at = random.below(list.len());
            match random.below(4) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => change(&mut list[at], keys, random, known),
            }
        }
        other => *other = value(random, known),
    }
}

/// All keys of the requests.
fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.push(key.clone());
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

/// Changes bytes: one is flipped, put in, taken out, or the rest is cut.
fn bytes(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.insert(at.min(bytes.len()), random.next() as u8),
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 if random.below(4) == 0 => bytes.truncate(at),
            4 => {
                let piece = *random.of(&PIECES);
                bytes.splice(at..at, piece.iter().copied());
            }
            _ => {
                let piece: Vec<u8> =
                    bytes.iter().skip(at).take(random.below(60)).copied().collect();
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn part(parts: &mut Vec<FormPart>, keys: &[String], random: &mut SplitMix64, known: &Known) {
    let names =
        ["job", "request", "src_audio", "reference_audio", "audio", "src_latents", "ref_latents"];
    let fresh = |random: &mut SplitMix64| FormPart {
        name: match random.below(3) {
            0 => random.of(keys).clone(),
            1 => random.of(&TEXTS).to_string(),
            _ => random.of(&names).to_string(),
        },
        file: (random.below(2) == 0).then(|| random.of(&TEXTS).to_string()),
        bytes: match random.below(5) {
            0 => Vec::new(),
            1 => vec![7; random.below(90_000)],
            2 => vec![0; 256 * random.below(40)],
            3 => value(random, known).to_string().into_bytes(),
            _ => random.of(&TEXTS).as_bytes().to_vec(),
        },
    };
    if parts.is_empty() {
        return parts.push(fresh(random));
    }
    let at = random.below(parts.len());
    match random.below(9) {
        0 => drop(parts.remove(at)),
        1 => parts.push(parts[at].clone()),
        2 => parts.push(fresh(random)),
        3 => parts[at].name = fresh(random).name,
        4 => parts[at].file = fresh(random).file,
        5 => parts[at].bytes = fresh(random).bytes,
        6 => bytes(&mut parts[at].bytes, random),
        _ => match serde_json::from_slice::<Value>(&parts[at].bytes) {
            Ok(mut json) => {
                match random.below(3) {
                    0 => json = json!([json, json]),
                    _ => change(&mut json, keys, random, known),
                }
                parts[at].bytes = json.to_string().into_bytes();
            }
            Err(_) => bytes(&mut parts[at].bytes, random),
        },
    }
}

fn path(path: &str, random: &mut SplitMix64, known: &Known) -> String {
    // Most requests name something that exists.
    let mut path = path.replace(ID, &known.any(random));
    if random.below(6) > 0 {
        return path;
    }
    match random.below(6) {
        0 => path += &format!("?wait={}", random.of(&["0", "-1", "1e300", "NaN", "x", "0.05"])),
        1 => {
            path +=
                &format!("&{}={}", random.of(&["id", "limit", "before", "result"]), random.below(9))
        }
        2 => {
            path += *random.of(&["/", "//", "%00", "%2e%2e%2f", "?", "?%", "#", "/..", ";x", "%ff"])
        }
        3 => {
            let cut =
                path.char_indices().nth(random.below(path.len())).map_or(1, |(at, _)| at.max(1));
            path.truncate(cut);
        }
        4 => path = path.replace('=', "=%zz"),
        _ => {
            let mut raw = path.into_bytes();
            bytes(&mut raw, random);
            path = format!("/{}", String::from_utf8_lossy(&raw).trim_start_matches('/'));
        }
    }
    path
}

fn header(sample: &mut Sample, random: &mut SplitMix64) {
    let (name, value) = match random.below(12) {
        0 => ("idempotency-key", "k".repeat(random.below(400)).into_bytes()),
        1 => ("x-api-key", vec![0xff, 0xfe]),
        _ => {
            let (name, values) = *random.of(&HEADERS);
            (name, random.of(values).as_bytes().to_vec())
        }
    };
    sample.headers.retain(|(known, _)| known != name);
    sample.headers.push((name.to_owned(), value));
}

/// Returns a mutated request.
pub(crate) fn sample(corpus: &[Sample], random: &mut SplitMix64, known: &Known) -> Sample {
    let mut all = Vec::new();
    for sample in corpus {
        if let Content::Json(value) = &sample.content {
            keys(value, &mut all);
        }
    }
    let mut sample = random.of(corpus).clone();
    sample.path = path(&sample.path, random, known);
    if let Content::Json(value) = &mut sample.content {
        let text = value.to_string().replace(ID, &known.any(random));
        *value = serde_json::from_str(&text).unwrap_or_default();
    }
    if random.below(4) == 0 {
        header(&mut sample, random);
    }
    if random.below(30) == 0 {
        sample.method = (*random.of(&METHODS)).to_owned();
    }
    for _ in 0..random.below(4) {
        match &mut sample.content {
            Content::Json(value) => change(value, &all, random, known),
            Content::Form(parts) => part(parts, &all, random, known),
            Content::Raw(raw) => bytes(raw, random),
            Content::None => break,
        }
    }
    // A caption that takes a minute or ends the process is no fault of a parser.
    if random.below(6) == 0 {
        let mut raw = sample.bytes();
        match random.below(3) {
            // A key that comes twice.
            0 if raw.first() == Some(&b'{') => {
                raw.splice(1..1, format!("\"{}\":1,", random.of(&all)).into_bytes());
            }
            _ => bytes(&mut raw, random),
        }
        sample.content = Content::Raw(raw);
    }
    sample
}

/// Returns a message of a WebSocket.
pub(crate) fn message(random: &mut SplitMix64, known: &Known) -> Message {
    let good = [
        json!({ "type": "tts", "text": "la", "voice": "me" }),
        json!({ "type": "append", "text": "One. Two. Thr", "language": "english" }),
        json!({ "type": "end" }),
        json!({ "type": "cancel" }),
    ];
    let names: Vec<String> =
        ["type", "text", "voice", "seed", "model", "job", "event"].map(str::to_owned).to_vec();
    let mut json = random.of(&good).clone();
    for _ in 0..random.below(3) {
        change(&mut json, &names, random, known);
    }
    match random.below(8) {
        0 => Message::binary(vec![random.next() as u8; random.below(100)]),
        1 => {
            let mut raw = json.to_string().into_bytes();
            bytes(&mut raw, random);
            Message::text(String::from_utf8_lossy(&raw).into_owned())
        }
        2 => Message::Ping(vec![1].into()),
        _ => Message::text(json.to_string()),
    }
}
