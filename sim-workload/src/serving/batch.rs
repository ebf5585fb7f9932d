//! What is worked on in one step.

/// A part of a prompt: tokens that are worked on, after tokens that are in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// Tokens.
    pub new: u64,
    /// Tokens before them.
    pub past: u64,
}

/// The work of a step of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch {
    /// Parts of prompts.
    pub prefills: Vec<Chunk>,
    /// How many of them end their prompt: only these have a next token.
    pub finished: u64,
    /// Sequences that get one more token.
    pub decodes: u64,
    /// Tokens in the cache of all of these, their last one included.
    pub contexts: u64,
    /// Tokens of all ranks that share experts with the one whose share this is; 0: each has as many.
    pub together: u64,
}

impl Batch {
    /// One step of `decodes` sequences of `context` tokens each.
    #[must_use]
    pub fn decode(decodes: u64, context: u64) -> Self {
        Self { decodes, contexts: decodes.saturating_mul(context), ..Self::default() }
    }

    /// Whole prompts of `tokens` tokens.
    #[must_use]
    pub fn prefill(prompts: u64, tokens: u64) -> Self {
        let prefills = vec![Chunk { new: tokens, past: 0 }; prompts as usize];
        Self { prefills, finished: prompts, ..Self::default() }
    }

    /// Tokens of prompts.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.prefills.iter().map(|c| c.new).sum()
    }

    /// All tokens that are worked on.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens() + self.decodes
    }

    /// Tokens that the head works on.
    #[must_use]
    pub const fn ends(&self) -> u64 {
        self.finished + self.decodes
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.prefills.is_empty() && self.decodes == 0
    }

    /// Twice the pairs of query and key of a head in the prompts, causal: a window of W bounds how far back a query looks.
    #[must_use]
    pub fn twice_pairs(&self, window: Option<u64>) -> u64 {
        self.prefills.iter().map(|c| twice_pairs(*c, window)).fold(0, u64::saturating_add)
    }

    /// Tokens of the cache that prompts' queries look back at, before the tokens that are worked on.
    #[must_use]
    pub fn past(&self, window: Option<u64>) -> u64 {
        let limit = window.unwrap_or(u64::MAX);
        self.prefills.iter().map(|c| c.past.min(limit)).fold(0, u64::saturating_add)
    }

    /// Tokens of the cache that the decoding sequences look back at.
    #[must_use]
    pub fn looked_at(&self, window: Option<u64>) -> u64 {
        window.map_or(self.contexts, |w| self.contexts.min(self.decodes.saturating_mul(w)))
    }

    /// The batch of one of `ranks` ranks when it is spread evenly, rounded up. Prompts are taken as if they could be spread too.
    #[must_use]
    pub fn share(&self, ranks: u64) -> Self {
        if ranks <= 1 {
            return self.clone();
        }
        let mut prefills = Vec::new();
        // Whole prompts to ranks in turn, the fullest rank stands for all: the first prompts of each round.
        let each = self.prefills.len() as u64 / ranks;
        let more = self.prefills.len() as u64 % ranks;
        let mut sorted = self.prefills.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        prefills.extend(sorted.iter().step_by(ranks as usize).take((each + u64::from(more > 0)) as usize).copied());
        Self {
            prefills,
            finished: self.finished.div_ceil(ranks),
            decodes: self.decodes.div_ceil(ranks),
            contexts: self.contexts.div_ceil(ranks),
            together: self.tokens(),
        }
    }

    /// Two halves that take turns, of as many tokens of prompts and as many sequences each, but for one: a prompt that lies across is cut,
    /// and the rest of it looks back at what comes before the cut.
    #[must_use]
    pub fn halves(&self) -> [Self; 2] {
        let mut left = self.prompt_tokens().div_ceil(2);
        let mut prefills = [Vec::new(), Vec::new()];
        for chunk in &self.prefills {
            let first = chunk.new.min(left);
            left -= first;
            let cut = [Chunk { new: first, ..*chunk }, Chunk { new: chunk.new - first, past: chunk.past + first }];
            for (half, part) in prefills.iter_mut().zip(cut).filter(|(_, part)| part.new > 0) {
                half.push(part);
            }
        }
        // Which half gets the odd one: of prompts' tokens the first, of sequences the second.
        let part = |n: u64, second: bool| if second { n.div_ceil(2) } else { n / 2 };
        let mut prefills = prefills.into_iter();
        [false, true].map(|second| Self {
            prefills: prefills.next().unwrap_or_default(),
            finished: part(self.finished, second),
            decodes: part(self.decodes, second),
            contexts: part(self.contexts, second),
            together: self.together.div_ceil(2),
        })
    }
}

/// Twice the pairs of a chunk: Σ over its tokens of 2·min(past + i, W), with half a pair for the token itself.
fn twice_pairs(chunk: Chunk, window: Option<u64>) -> u64 {
    let (n, past) = (u128::from(chunk.new), u128::from(chunk.past));
    let all = n * n + 2 * n * past;
    let pairs = match window.map(u128::from) {
        Some(w) if past >= w => 2 * n * w,
        Some(w) if past + n > w => {
            // The first w − past tokens see all before them.
            let free = w - past;
            free * free + 2 * free * past + 2 * (n - free) * w
        }
        _ => all,
    };
    u64::try_from(pairs).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_pairs_of_the_whole() {
        let whole = Batch::prefill(1, 4096);
        let cut = Batch { prefills: (0..4).map(|i| Chunk { new: 1024, past: i * 1024 }).collect(), ..Batch::default() };
        for window in [None, Some(128), Some(1500), Some(5000)] {
            assert_eq!(whole.twice_pairs(window), cut.twice_pairs(window), "{window:?}");
        }
        assert_eq!(whole.twice_pairs(None), 4096 * 4096);
    }

    #[test]
    fn halves_add_up_to_the_whole() {
        for (prompts, tokens, decodes) in [(1, 4096, 0), (3, 1001, 7), (0, 0, 2), (1, 1, 1), (2, 8, 0)] {
            let whole = Batch { decodes, contexts: 100 * decodes, ..Batch::prefill(prompts, tokens) };
            let [a, b] = whole.halves();
            assert_eq!(a.tokens() + b.tokens(), whole.tokens());
            assert!(a.tokens().abs_diff(b.tokens()) <= 1, "{a:?} {b:?}");
            assert!(!a.is_empty() && !b.is_empty());
            for window in [None, Some(100)] {
                assert_eq!(a.twice_pairs(window) + b.twice_pairs(window), whole.twice_pairs(window));
            }
        }
    }

    #[test]
    fn a_share_is_that_of_the_fullest_rank() {
        let batch = Batch { decodes: 10, contexts: 1000, ..Batch::prefill(5, 100) };
        let share = batch.share(4);
        assert_eq!((share.prefills.len(), share.decodes, share.contexts, share.finished), (2, 3, 250, 2));
        assert_eq!(batch.share(1), batch);
    }
}
