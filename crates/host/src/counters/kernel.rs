//! Blocks of counters by their names in the kernel.

/// Declares a block of counters that states the kernel's name for each.
macro_rules! kernel_counters {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $( $(#[$field_about:meta])* $field:ident: $kernel:literal, )+
        }
    ) => {
        corelane_measure::counters! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
            pub struct $name {
                $( $(#[$field_about])* #[doc = concat!(" The kernel calls it `", $kernel, "`.")] pub $field: u64, )+
            }
        }

        impl $name {
            /// Takes each counter by the kernel's word for it. A word this kernel does not have counts 0.
            #[allow(dead_code, reason = "tables without words in the file are read by column")]
            fn by_name(value: impl Fn(&str) -> Option<u64>) -> Self {
                Self { $( $field: value($kernel).unwrap_or(0), )+ }
            }

            /// Takes the counters from columns that stand in their order.
            #[allow(dead_code, reason = "tables with words in the file are read by name")]
            fn in_order(mut columns: impl Iterator<Item = Option<u64>>) -> Option<Self> {
                Some(Self { $( $field: columns.next()??, )+ })
            }
        }
    };
}

pub(super) use kernel_counters;
