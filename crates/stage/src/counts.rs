//! The counts of stages, by name: a stage declares each once, with the sentence that explains it.

pub use corelane_measure::counter::Counter;

/// What a count is. Every frame is in one cell: received and made ones are passed, dropped, used, held, or with another bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Events, or frames that went on.
    Counted,
    /// Frames that were dropped.
    Dropped,
    /// Frames that others were made of.
    Used,
    /// Frames that were made.
    Made,
    /// Frames that the stage has taken and holds now.
    Held,
    /// Another quantity as it is now.
    Level,
}

/// One count of a stage, as read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Its name.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub about: &'static str,
    /// What it is.
    pub class: Class,
    /// The count.
    pub value: u64,
}

/// Counts that a stage writes and any thread reads.
pub trait StageCounts: Default + Send + Sync {
    /// Visits every count.
    fn each(&self, see: &mut dyn FnMut(Count));
}

/// Declares the counts of a stage: a struct of counters, each with its class and the sentence that explains it.
///
/// ```
/// corelane_stage::stage_counts! {
///     /// The counts of a stage that drops short frames.
///     pub struct RuntCounts {
///         /// Frames of fewer than 60 bytes.
///         Dropped runts,
///     }
/// }
/// ```
#[macro_export]
macro_rules! stage_counts {
    ($(#[$outer:meta])* $visibility:vis struct $name:ident {
        $($(#[doc = $about:literal])+ $class:ident $field:ident,)*
    }) => {
        $(#[$outer])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        $visibility struct $name {
            $($(#[doc = $about])+ pub $field: $crate::counts::Counter,)*
        }

        impl $crate::counts::StageCounts for $name {
            fn each(&self, see: &mut dyn FnMut($crate::counts::Count)) {
                $(see($crate::counts::Count {
                    name: stringify!($field),
                    about: concat!($($about),+).trim_ascii(),
                    class: $crate::counts::Class::$class,
                    value: self.$field.get(),
                });)*
            }
        }
    };
}
