//! How structs and enumerations that cross are declared, so that a test can compare them with what
//! the kernels' source says.

/// A struct's size and fields: name, offset and size, in bytes.
#[cfg(test)]
pub(super) struct Struct {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) fields: &'static [(&'static str, usize, usize)],
}

/// Declares structs that cross, plain data all of them, and lists them as `STRUCTS` for the test.
macro_rules! structs {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)?
    })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default)]
            #[repr(C)]
            $vis struct $name {
                $($(#[$field_meta])* $field_vis $field: $type),*
            }

            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "it has gaps");

            // SAFETY: `#[repr(C)]`, of plain fields (as the function below asks), without gaps.
            #[allow(unsafe_code)]
            unsafe impl $crate::plain::Plain for $name {}

            const _: fn() = || {
                fn plain<T: $crate::plain::Plain>() {}
                $(plain::<$type>();)*
            };
        )*

        /// The structs above.
        #[cfg(test)]
        pub(super) const STRUCTS: &[super::declare::Struct] = &[$(super::declare::Struct {
            name: stringify!($name),
            size: size_of::<$name>(),
            fields: &[$((
                stringify!($field),
                std::mem::offset_of!($name, $field),
                size_of::<$type>(),
            )),*],
        }),*];
    };
}

/// Declares an enumeration that crosses, and lists its values' names and numbers as `NUMBERS` for
/// the test.
macro_rules! numbers {
    ($(#[$meta:meta])* $vis:vis enum $name:ident: $repr:ident {
        $($(#[$variant_meta:meta])* $variant:ident $(= $number:literal)?),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($repr)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant $(= $number)?),*
        }

        #[cfg(test)]
        impl $name {
            /// The values above.
            pub(super) const NUMBERS: &[(&str, u64)] =
                &[$((stringify!($variant), $name::$variant as u64)),*];
        }
    };
}

/// Says which kernel takes which struct, and lists it as `ARGUMENTS` for the test: kernels, and the
/// names of their structs.
macro_rules! arguments {
    ($($type:ident $(as $name:ident)? = $kernel:ident),* $(,)?) => {
        $(
            // SAFETY: `#[repr(C)]`, the fields of the kernel's struct at their places: a test sees.
            #[allow(unsafe_code)]
            unsafe impl $crate::gpu::Arguments for $type {
                const KERNEL: $crate::gpu::Kernel = $crate::gpu::Kernel::$kernel;
            }
        )*

        #[cfg(test)]
        pub(super) const ARGUMENTS: &[($crate::gpu::Kernel, &str)] = &[$((
            $crate::gpu::Kernel::$kernel,
            [stringify!($type) $(, stringify!($name))?][<[&str]>::len(&[$(stringify!($name))?])],
        )),*];
    };
}
