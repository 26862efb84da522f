//! The kernels by name.

/// The kernels, by the names they have in `kernels/*.cu`.
macro_rules! kernels {
    ($($module:literal: [$($variant:ident = $name:literal),* $(,)?]),* $(,)?) => {
        /// A kernel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Kernel { $($($variant,)*)* }

        impl Kernel {
            /// All of them.
            pub const ALL: &[Kernel] = &[$($(Kernel::$variant,)*)*];

            /// Its name in the source.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Kernel::$variant => $name,)*)* }
            }

            /// The file in `kernels/` that has it, without `.cu`.
            #[must_use]
            pub const fn module(self) -> &'static str {
                match self { $($(Kernel::$variant => $module,)*)* }
            }
        }

        /// The files with kernels, without `.cu`.
        pub const MODULES: &[&str] = &[$($module,)*];
    };
}

kernels! {
    "stage": [
        Stage = "run_stage",
        StageSpilled = "run_stage_spilled",
        Decode = "decode_answers",
    ],
    "layout": [
        Offsets = "lane_offsets",
        Row = "render_row",
        Column = "render_column",
        Transpose = "transpose_column",
        Texts = "deliver_texts",
    ],
    "parse": [
        TransposeRequests = "transpose_requests",
        Classify = "classify_requests",
        Sort = "sort_requests",
        Params = "parse_params",
    ],
    "sessions": [
        SessionsInit = "sessions_init",
        SessionsLookup = "sessions_lookup",
        SessionsCreate = "sessions_create",
        SessionsDestroy = "sessions_destroy",
        SessionsSweep = "sessions_sweep",
    ],
    "besim": [Besim = "answer_besim"],
    "resident": [Begin = "begin_lanes", Heads = "write_heads"],
    "bandwidth": [CopyBytes = "copy_bytes", WriteBytes = "write_bytes"],
}
