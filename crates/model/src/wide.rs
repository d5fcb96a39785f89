//! Work on many numbers, with the widest vector instructions that the processor has.

/// Work that is compiled twice: for every processor, and for those with AVX2. The figures are the same.
pub trait Wide {
    /// What comes of it.
    type Made;

    /// Does it. To be compiled twice it must be `#[inline(always)]`, and so must be what it calls.
    fn run(self) -> Self::Made;
}

/// Does the work, with AVX2 where the processor has it.
pub fn run<W: Wide>(work: W) -> W::Made {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn by_avx2<W: Wide>(work: W) -> W::Made {
            work.run()
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { by_avx2(work) };
        }
    }
    work.run()
}
