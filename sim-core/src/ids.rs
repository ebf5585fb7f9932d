//! Dense `u32` numbers of the things the engine holds.
//!
//! They are types, so that a flow's number cannot index the links. Niches for `Option` are
//! not used in the hot records, which take `u32::MAX` for "none".

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            #[doc = concat!("The ", $what, " with index `i`.")]
            ///
            /// # Panics
            /// If `i` does not fit in 32 bits.
            #[must_use]
            pub fn new(i: usize) -> Self {
                Self(u32::try_from(i).expect(concat!("more than 2^32 of ", $what)))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}{}", $what, self.0)
            }
        }
    };
}

id!(
    /// One direction of a cable, trace or bundle.
    LinkId,
    "link"
);
id!(
    /// One queue pair: one path, one rate state, in order.
    FlowId,
    "flow"
);
id!(
    /// A sender–receiver pair with slots, carried by one or more flows.
    ConnId,
    "conn"
);
id!(
    /// A sequential program.
    LaneId,
    "lane"
);
id!(
    /// A place where equal segments of several flows meet, and leave on one or more others.
    JunctionId,
    "junction"
);
