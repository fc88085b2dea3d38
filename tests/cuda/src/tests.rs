//! Small kernels in PTX, with the results that the specification demands.

use crate::{
    decode::Code,
    launch::{Launch, Line},
    memory::Allocations,
    ptx::Module,
};

/// Runs a kernel of one parameter, an array of words, on a block of `threads`, and returns the array.
fn run(body: &str, threads: u32, words: &[u32]) -> Result<Vec<u32>, String> {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry test(.param .u64 data)\n{{\n\
         .reg .pred %p<8>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %rd<16>; .reg .b16 %rs<8>;\n\
         .shared .align 16 .b8 room[1024];\n\
         ld.param.u64 %rd0, [data]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1;\n\
         {body}\nret;\n}}\n"
    );
    let module = Module::parse(&text)?;
    let code = Code::decode(&module.kernels[0], |_| None)?;
    let allocations = Allocations::new();
    let bytes = size_of_val(words);
    let address = allocations.allocate(bytes).expect("memory");
    let mut parameters = vec![Line::ZERO; 1];
    #[expect(unsafe_code, reason = "memory of the device has no type")]
    // SAFETY: the allocation has as many bytes as the words; a line holds an address.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr(), address as *mut u32, words.len());
        parameters.as_mut_ptr().cast::<u64>().write(address);
    }
    let (grid, block) = ([1; 3], [threads, 1, 1]);
    let launch = Launch {
        code: &code,
        grid,
        block,
        dynamic_shared: 0,
        parameters,
        allocations: &allocations,
    };
    launch.run()?;
    #[expect(unsafe_code, reason = "see above")]
    // SAFETY: see above.
    let result = unsafe { std::slice::from_raw_parts(address as *const u32, words.len()) }.to_vec();
    assert!(allocations.free(address));
    Ok(result)
}

/// Counts down from the thread's number in a loop, and adds two numbers where threads took different ways.
#[test]
fn threads_that_part_meet_again() {
    let body = "
        mov.u32 %r1, %r0; mov.u32 %r2, 0;
        again: setp.eq.u32 %p0, %r1, 0; @%p0 bra done;
        add.u32 %r2, %r2, %r1; sub.u32 %r1, %r1, 1; bra again;
        done: and.b32 %r3, %r0, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra even;
        add.u32 %r2, %r2, 1000; bra.uni join;
        even: add.u32 %r2, %r2, 2000;
        join: shfl.sync.bfly.b32 %r4, %r2, 1, 31, 0xffffffff; st.global.u32 [%rd2], %r4;";
    let sum = |thread: u32| thread * (thread + 1) / 2 + if thread % 2 == 1 { 1000 } else { 2000 };
    let expected: Vec<u32> = (0..64).map(|thread: u32| sum(thread ^ 1)).collect();
    assert_eq!(run(body, 64, &[0; 64]), Ok(expected));
}

/// The second warp writes after a loop; the first one reads what it wrote.
#[test]
fn a_barrier_waits_for_all_warps() {
    let body = "
        mov.u32 %r1, room; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0;
        bar.sync 0; xor.b32 %r4, %r2, 128; add.u32 %r5, %r1, %r4; ld.shared.u32 %r6, [%r5];
        st.global.u32 [%rd2], %r6;";
    let expected: Vec<u32> = (0..64).map(|thread: u32| thread ^ 32).collect();
    assert_eq!(run(body, 64, &[0; 64]), Ok(expected));
}

#[test]
fn wrong_accesses_are_refused() {
    let far = run("st.global.u32 [%rd2+4096], %r0;", 1, &[0]).expect_err("behind the end");
    assert!(far.contains("where nothing is"), "{far}");
    let odd = run("ld.global.u32 %r1, [%rd2+2];", 1, &[0; 4]).expect_err("between two words");
    assert!(odd.contains("not aligned"), "{odd}");
    let shared = run("mov.u32 %r1, 2000; ld.shared.u32 %r2, [%r1];", 1, &[0]).expect_err("outside");
    assert!(shared.contains("Shared"), "{shared}");
    let unknown =
        run("tcgen05.mma %r1, %r2;", 1, &[0]).expect_err("an instruction of another generation");
    assert!(unknown.contains("tcgen05.mma"), "{unknown}");
}

#[test]
fn threads_that_wait_for_ever_are_reported() {
    let error = run("bar.sync 1, 64;", 32, &[0]).expect_err("half of the threads are missing");
    assert!(error.contains("wait for ever") && error.contains("bar.sync"), "{error}");
    let body = "mov.u32 %r1, room; mbarrier.init.shared::cta.b64 [%r1], 2;
        again: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r1], 0; @!%p0 bra again;";
    let error = run(body, 1, &[0]).expect_err("nobody arrives");
    assert!(error.contains("wait for ever"), "{error}");
}

/// A copy is there after its wait, and not before.
#[test]
fn copies_are_late() {
    let body = "
        mov.u32 %r1, room; cp.async.cg.shared.global [%r1], [%rd0], 16; cp.async.commit_group;
        ld.shared.u32 %r2, [%r1]; cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];
        st.global.u32 [%rd0], %r2; st.global.u32 [%rd0+4], %r3;";
    assert_eq!(run(body, 1, &[7, 8, 9, 10]), Ok(vec![u32::MAX, 7, 9, 10]));
}

/// A comparison with NaN is true only where the name says so.
#[test]
fn comparisons_know_nan() {
    let body = "
        ld.global.f32 %f0, [%rd0]; ld.global.f32 %f1, [%rd0+4];
        setp.lt.f32 %p0, %f0, %f1; setp.ltu.f32 %p1, %f0, %f1; setp.ne.f32 %p2, %f0, %f1; setp.neu.f32 %p3, %f0, %f1;
        selp.u32 %r1, 1, 0, %p0; selp.u32 %r2, 2, 0, %p1; selp.u32 %r3, 4, 0, %p2; selp.u32 %r4, 8, 0, %p3;
        or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4; st.global.u32 [%rd0], %r1;";
    let of = |a: f32, b: f32| run(body, 1, &[a.to_bits(), b.to_bits()]).map(|words| words[0]);
    assert_eq!([of(1.0, 2.0), of(2.0, 2.0), of(f32::NAN, 2.0)], [Ok(15), Ok(0), Ok(10)]);
}

/// Numbers that are halfway between two of the shorter type.
#[test]
fn conversions_round_to_even_or_as_they_say() {
    let body = "
        ld.global.f32 %f0, [%rd0];
        cvt.rn.bf16.f32 %rs0, %f0; cvt.u32.u16 %r1, %rs0; cvt.rzi.s32.f32 %r2, %f0; cvt.rni.s32.f32 %r3, %f0;
        cvt.rpi.f32.f32 %f1, %f0; st.global.u32 [%rd0], %r1; st.global.u32 [%rd0+4], %r2;
        st.global.u32 [%rd0+8], %r3; st.global.f32 [%rd0+12], %f1;";
    let of = |x: f32| run(body, 1, &[x.to_bits(), 0, 0, 0]);
    assert_eq!(of(-2.5), Ok(vec![0xc020, -2i32 as u32, -2i32 as u32, (-2.0f32).to_bits()]));
    // 1 + 2^-8 is between 1 and 1 + 2^-7 of bf16.
    assert_eq!(of(1.0 + 1.0 / 256.0), Ok(vec![0x3f80, 1, 1, 2.0f32.to_bits()]));
    assert_eq!(of(f32::NAN).map(|words| words[1]), Ok(0));
}

/// The identity times a matrix of small numbers, in the layout of the specification.
#[test]
fn a_product_of_matrix_units_has_its_layout() {
    // Thread `t` holds rows `t / 4` and 8 more, terms `2 (t % 4)` and the next, and 8 more.
    let body = "
        shr.u32 %r1, %r0, 2; and.b32 %r2, %r0, 3; shl.b32 %r3, %r2, 1;
        setp.eq.u32 %p0, %r1, %r3; selp.b32 %r4, 0x3f80, 0, %p0; add.u32 %r5, %r3, 1;
        setp.eq.u32 %p1, %r1, %r5; selp.b32 %r6, 0x3f800000, 0, %p1; or.b32 %r7, %r4, %r6;
        mov.u32 %r8, 0; cvt.rn.f32.u32 %f0, %r0; cvt.rn.bf16.f32 %rs0, %f0; mov.b32 %r9, {%rs0, %rs0};
        mov.f32 %f1, 0f3F000000;
        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r7, %r8, %r8, %r7}, {%r9, %r8},
            {%f1, %f1, %f1, %f1};
        st.global.f32 [%rd2], %f3;";
    // Row `t / 4` of the result is that term of the columns `2 (t % 4) + 1`, whose thread holds its own number.
    let expected: Vec<u32> = (0..32)
        .map(|thread| {
            let (row, column) = (thread / 4, thread % 4 * 2 + 1);
            ((column * 4 + row / 2) as f32 + 0.5).to_bits()
        })
        .collect();
    assert_eq!(run(body, 32, &[0; 32]), Ok(expected));
}
