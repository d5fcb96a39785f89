//! Work on many numbers, with the widest vector instructions that the processor has.

/// Work that is compiled several times: for every processor, and for those with AVX2 and with AVX-512. The figures are the
/// same.
pub trait Wide {
    /// What comes of it.
    type Made;

    /// Does it. To be compiled for each it must be `#[inline(always)]`, and so must be what it calls.
    fn run(self) -> Self::Made;
}

/// Does the work, with AVX-512 or AVX2 where the processor has it.
pub fn run<W: Wide>(work: W) -> W::Made {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn by_avx2<W: Wide>(work: W) -> W::Made {
            work.run()
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vbmi2")]
        fn by_avx512<W: Wide>(work: W) -> W::Made {
            work.run()
        }
        if avx512() {
            // SAFETY: the processor has these parts of AVX-512.
            return unsafe { by_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { by_avx2(work) };
        }
    }
    work.run()
}

/// Whether the processor has those parts of AVX-512 that are used here. With the last of them it is one that does not slow
/// down for vectors of 512 bits.
#[cfg(target_arch = "x86_64")]
pub fn avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
}
