//! The kinds of messages that the exposed time of a step is told by.

/// A kind of messages that ranks wait for, in the order of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exposed {
    /// Of tensor parallelism.
    Tensor,
    /// Of context parallelism.
    Context,
    /// Between stages of the pipeline.
    Pipeline,
    /// Gradients and parameters of data-parallel ranks.
    Data,
    /// Tokens on their way to experts and back.
    Expert,
    /// Within an expert.
    ExpertTensor,
    /// Gradients of an embedding that the first and the last stage share.
    Ends,
    /// Of ranks of several kinds together: norms of gradients.
    All,
}

impl Exposed {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Tensor,
        Self::Context,
        Self::Pipeline,
        Self::Data,
        Self::Expert,
        Self::ExpertTensor,
        Self::Ends,
        Self::All,
    ];

    /// The short name in results and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tp",
            Self::Context => "cp",
            Self::Pipeline => "pp",
            Self::Data => "dp",
            Self::Expert => "ep",
            Self::ExpertTensor => "etp",
            Self::Ends => "ends",
            Self::All => "all",
        }
    }

    /// A row of a table: `tp`, and what has no such name.
    #[must_use]
    pub const fn row(self) -> &'static str {
        match self {
            Self::Ends => "tied embedding",
            Self::All => "gradient norms",
            one => one.name(),
        }
    }

    /// In a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Tensor => "tp messages",
            Self::Context => "cp messages",
            Self::Pipeline => "pp messages",
            Self::Data => "dp messages",
            Self::Expert => "ep messages",
            Self::ExpertTensor => "etp messages",
            Self::Ends => "all-reduces of the tied embedding",
            Self::All => "all-reduces of gradient norms",
        }
    }

    /// The kind of a short name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}
