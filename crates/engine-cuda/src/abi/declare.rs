//! How structs and enumerations that cross are declared, so that a test can compare them with what
//! the kernels' source says.

/// A struct that crosses.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(super) struct Struct {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) fields: &'static [Place],
}

/// A field of it: name, offset and size, in bytes, and the name of the type it points to.
#[cfg(test)]
pub(super) type Place = (&'static str, usize, usize, Option<fn() -> &'static str>);

/// A struct with pointers.
#[cfg(test)]
pub(super) trait Described {
    const STRUCT: Struct;
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

            impl $crate::gpu::Field for $name {
                type Raw = Self;
                type Counted = Self;

                fn counted(self) -> Self {
                    self
                }

                fn lower(self, _: $crate::gpu::DeviceId) -> Self {
                    self
                }
            }
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
                None,
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

/// Declares structs with pointers: as the host has them, with borrowed slices, and as the kernels
/// do. Behind a slice stands how many items it must have, by the struct's numbers, and under
/// `where` what else must hold; `beside` are numbers that only these need.
macro_rules! pointing {
    ($(
        $(#[$meta:meta])*
        pub(crate) struct $name:ident<$m:lifetime> {
            $($(#[$field_meta:meta])* $field:ident: $type:ty $([$count:expr])?),* $(,)?
        }
        $(beside { $($(#[$beside_meta:meta])* $beside:ident: $beside_type:ty),* $(,)? })?
        $(where { $($holds:expr),* $(,)? })?
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name<$m> {
            $($(#[$field_meta])* pub(crate) $field: $type,)*
            $($($(#[$beside_meta])* pub(crate) $beside: $beside_type,)*)?
        }

        const _: () = {
            use $crate::gpu::{DeviceId, Field};

            /// As it lies in memory. No name leads here: it is known as what `Field` says.
            #[derive(Clone, Copy)]
            #[repr(C)]
            #[allow(unreachable_pub)]
            pub struct Raw<$m> {
                $($field: <$type as Field>::Raw),*
            }

            impl<$m> Raw<$m> {
                const HAS_NO_GAPS: () = assert!(
                    size_of::<Self>() == 0 $(+ size_of::<<$type as Field>::Raw>())*,
                    "it has gaps"
                );
            }

            impl<$m> Field for $name<$m> {
                type Raw = Raw<'static>;
                type Counted = Self;

                fn counted(self) -> Self {
                    self
                }

                #[allow(unused_variables)]
                fn lower(self, device: DeviceId) -> Raw<'static> {
                    let () = Raw::HAS_NO_GAPS;
                    let $name { $($field,)* $($($beside,)*)? } = self;
                    $(let $field = Field::counted($field);)*
                    $($(let $beside = Field::counted($beside);)*)?
                    $($(assert!(
                        $crate::gpu::Pointer::has(&self.$field, $count),
                        concat!(stringify!($name), ": ", stringify!($field), " is too short"),
                    );)?)*
                    $($(assert!($holds, concat!(stringify!($name), ": ", stringify!($holds)));)*)?
                    Raw {
                        $($field: self.$field.lower(device)),*
                    }
                }
            }

            #[cfg(test)]
            impl<$m> $crate::abi::declare::Described for $name<$m> {
                const STRUCT: $crate::abi::declare::Struct = $crate::abi::declare::Struct {
                    name: stringify!($name),
                    size: size_of::<Raw<'static>>(),
                    fields: &[$((
                        stringify!($field),
                        std::mem::offset_of!(Raw<'static>, $field),
                        size_of::<<$type as Field>::Raw>(),
                        <$type as Field>::POINTEE,
                    )),*],
                };
            }
        };
    )*};
}

/// Declares structs that kernels take, as `pointing` does; which kernel takes it, in what grid; and
/// lists them as `SIGNATURES` for the test: kernels and their structs.
macro_rules! signatures {
    ($(
        $(#[$meta:meta])*
        pub(crate) struct $name:ident<$m:lifetime> {
            $($(#[$field_meta:meta])* $field:ident: $type:ty $([$count:expr])?),* $(,)?
        }
        $(beside { $($(#[$beside_meta:meta])* $beside:ident: $beside_type:ty),* $(,)? })?
        $(where { $($holds:expr),* $(,)? })?
        launch $kernel:ident $(or $other:ident if $is_other:expr)? => $grid:expr;
    )*) => {
        $(
            pointing! {
                $(#[$meta])*
                pub(crate) struct $name<$m> {
                    $($(#[$field_meta])* $field: $type $([$count])?),*
                }
                $(beside { $($(#[$beside_meta])* $beside: $beside_type),* })?
                $(where { $($holds),* })?
            }

            // SAFETY: `lower` gives the fields of the kernel's struct at their places, as a test
            // sees, and has asserted how long what it points to is; each kernel's declaration says
            // what it uses.
            #[allow(unsafe_code)]
            unsafe impl<$m> $crate::gpu::Launch<$m> for $name<$m> {
                #[allow(unused_variables)]
                fn kernel(&self) -> $crate::gpu::Kernel {
                    let $name { $($field,)* $($($beside,)*)? } = *self;
                    $(let $field = $crate::gpu::Field::counted($field);)*
                    $(if $is_other {
                        return $crate::gpu::Kernel::$other;
                    })?
                    $crate::gpu::Kernel::$kernel
                }

                #[allow(unused_variables)]
                fn grid(&self) -> $crate::gpu::Grid {
                    let $name { $($field,)* $($($beside,)*)? } = *self;
                    $(let $field = $crate::gpu::Field::counted($field);)*
                    $($(let $beside = $crate::gpu::Field::counted($beside);)*)?
                    $grid
                }
            }
        )*

        /// The structs above.
        #[cfg(test)]
        pub(super) const SIGNATURES: &[($crate::gpu::Kernel, super::declare::Struct)] = &[$(
            (
                $crate::gpu::Kernel::$kernel,
                <$name<'static> as super::declare::Described>::STRUCT,
            ),
            $((
                $crate::gpu::Kernel::$other,
                <$name<'static> as super::declare::Described>::STRUCT,
            ),)?
        )*];
    };
}
