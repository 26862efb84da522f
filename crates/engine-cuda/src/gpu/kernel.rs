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

            /// Whether its blocks come after those of others that are ready. What writes pages
            /// has as many as fill the device for a while, and all of it can wait: the others are
            /// small, each waits for the one before, and together they find the next pages to
            /// write. First come, first served, cohorts move in step, and the memory that pages
            /// go to idles while all of them are in a stage.
            #[must_use]
            pub const fn gives_way(self) -> bool {
                matches!(self, Kernel::Row | Kernel::Column | Kernel::Transpose)
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
