//! Layers over the chunks of a pipeline.

use crate::nearest::Nearest;

use super::SizeFault;

/// How layers are divided over p·v chunks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Split {
    /// As many in each.
    #[default]
    Even,
    /// As many in each, where the embedding takes the place of a layer in the first chunk, and the head in the last:
    /// 126 layers are 8·16 − 2.
    Counting {
        /// Whether the embedding counts.
        embedding: bool,
        /// Whether the head counts.
        head: bool,
    },
    /// Given chunk by chunk, in the order of the layers.
    Given(Vec<u64>),
}

impl Split {
    /// Layers of each of `stages · chunks` chunks, in the order of the layers: chunk `c` of stage `s` is number c·p + s.
    ///
    /// # Errors
    /// If they can't be divided so.
    pub fn layers(&self, layers: u64, stages: u64, chunks: u64) -> Result<Vec<u64>, SizeFault> {
        let parts = stages * chunks;
        let (first, last) = match self {
            Self::Even => (0, 0),
            Self::Counting { embedding, head } => (u64::from(*embedding), u64::from(*head)),
            Self::Given(list) => {
                let sum = list.iter().map(|n| u128::from(*n)).sum();
                if list.len() as u64 != parts || sum != u128::from(layers) {
                    return Err(SizeFault::Layers { chunks: list.len(), sum, wanted: parts, layers });
                }
                return Ok(list.clone());
            }
        };
        let slots = layers + first + last;
        if !slots.is_multiple_of(parts) {
            let rule = match self {
                Self::Even => "layers % (pp · vp) = 0",
                _ => "(layers + embedding + head) % (pp · vp) = 0",
            };
            let near = Nearest::divisor(parts, slots, |d| d.is_multiple_of(stages));
            let (key, near) = if near.values().is_empty() || chunks == 1 {
                ("pp · vp", Nearest::divisor(parts, slots, |_| true))
            } else {
                ("vp", Nearest::to(chunks, near.values().iter().map(|d| d / stages)))
            };
            let values = format!("{slots} layers, pp = {stages}, vp = {chunks}");
            return Err(SizeFault::Rule { rule, values, key, near });
        }
        let each = slots / parts;
        let mut out = vec![each; usize::try_from(parts).unwrap_or(0)];
        if let Some(chunk) = out.first_mut() {
            *chunk -= first.min(each);
        }
        if let Some(chunk) = out.last_mut() {
            *chunk = chunk.saturating_sub(last);
        }
        Ok(out)
    }
}
