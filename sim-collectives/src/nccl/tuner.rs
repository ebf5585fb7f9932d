//! The configuration file of NCCL's example tuner plugin (`ext-tuner/example` in its sources): which algorithm, protocol and
//! number of channels a call takes, by operation, size, nodes and ranks.

use super::algorithm::Algorithm;
use super::communicator::Communicator;
use super::datatype::Element;
use super::operation::Operation;
use super::protocol::Protocol;

/// The rules of a file, in order; the first that fits a call and is offered for it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunerFile {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    operation: Operation,
    bytes: (u64, u64),
    algorithm: Algorithm,
    protocol: Protocol,
    channels: Option<u32>,
    nodes: Option<u32>,
    ranks: Option<u32>,
}

/// What such a file asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// The most channels, if not NCCL's own number.
    pub channels: Option<u32>,
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{seen}`: expected {expected}")]
pub struct TunerError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What stands there.
    pub seen: String,
    /// What may stand there.
    pub expected: String,
}

impl TunerFile {
    /// Reads lines of `collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks` and what may follow
    /// (`numPipeOps,regBuff`, of which −1 alone means any call here); `#` begins a comment, −1 means any.
    ///
    /// # Errors
    /// The first line that is no rule.
    pub fn parse(text: &str) -> Result<Self, TunerError> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            rules.push(rule(content).map_err(|(seen, expected)| TunerError { line: number + 1, seen, expected })?);
        }
        Ok(Self { rules: rules.into_iter().flatten().collect() })
    }

    /// Whether it has no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What a call of `bytes` takes on a communicator; `None` if no rule fits, or what the first asks for is not offered.
    #[must_use]
    pub fn tuned(&self, comm: &Communicator, operation: Operation, bytes: u64, element: Element) -> Option<Tuned> {
        let any = |wanted: Option<u32>, is: u32| wanted.is_none_or(|wanted| wanted == is);
        let fits = |rule: &&Rule| {
            rule.operation == operation
                && (rule.bytes.0..=rule.bytes.1).contains(&bytes)
                && any(rule.nodes, comm.facts().nodes)
                && any(rule.ranks, comm.ranks())
        };
        let rule = self.rules.iter().find(fits)?;
        let Rule { algorithm, protocol, channels, .. } = *rule;
        let offered = comm.candidates_of(operation, bytes, element).into_iter().any(|c| {
            c.algorithm == algorithm
                && c.protocol == protocol
                && matches!(c.verdict, super::choose::Verdict::Offered { .. })
        });
        offered.then_some(Tuned { algorithm, protocol, channels })
    }
}

/// One line; `None` if it is for calls that are not played: several in one group, or on registered buffers.
fn rule(line: &str) -> Result<Option<Rule>, (String, String)> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [operation, least, most, algorithm, protocol, channels, nodes, ranks, more @ ..] = fields.as_slice() else {
        let form =
            "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]";
        return Err((line.to_owned(), form.to_owned()));
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| (text.to_owned(), "a whole number of bytes".to_owned()));
    let or_any = |text: &str| match text {
        "-1" => Ok(None),
        text => {
            text.parse::<u32>().map(Some).map_err(|_| (text.to_owned(), "a whole number, or -1 for any".to_owned()))
        }
    };
    let operation = operation.parse::<Operation>().ok().filter(|op| Operation::COLLECTIVES.contains(op));
    let names = || (fields[0].to_owned(), "allreduce, allgather, reducescatter, broadcast or reduce".to_owned());
    let rule = Rule {
        operation: operation.ok_or_else(names)?,
        bytes: (number(least)?, number(most)?),
        algorithm: algorithm
            .parse()
            .map_err(|e: super::UnknownName| ((*algorithm).to_owned(), e.expected.join(", ")))?,
        protocol: protocol.parse().map_err(|e: super::UnknownName| ((*protocol).to_owned(), e.expected.join(", ")))?,
        channels: or_any(channels)?,
        nodes: or_any(nodes)?,
        ranks: or_any(ranks)?,
    };
    let lone = more.first().is_none_or(|pipe| matches!(*pipe, "-1" | "1"));
    let plain = more.get(1).is_none_or(|registered| matches!(*registered, "-1" | "0"));
    Ok((lone && plain).then_some(rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::{Facts, Knobs, Version};

    #[test]
    fn the_first_rule_that_fits_holds() {
        let file = TunerFile::parse(
            "# head\nallreduce,0,65536,tree,ll,-1,2,-1,-1,-1\nallreduce,0,1048576,ring,simple,4,-1,16 # note\n\
             allreduce,0,99999999,tree,simple,-1,-1,-1,-1,1\nallgather,0,100,nvls,simple,-1,-1,-1\n",
        )
        .unwrap();
        let comm = Communicator::new(Facts::nvswitch(90, 8, 2), Version::NEWEST, Knobs::default()).unwrap();
        let tuned =
            |op, bytes| file.tuned(&comm, op, bytes, Element::default()).map(|t| (t.algorithm, t.protocol, t.channels));
        assert_eq!(tuned(Operation::AllReduce, 65_536), Some((Algorithm::Tree, Protocol::Ll, None)));
        assert_eq!(tuned(Operation::AllReduce, 65_537), Some((Algorithm::Ring, Protocol::Simple, Some(4))));
        // For registered buffers only, and what is not offered.
        assert_eq!(tuned(Operation::AllReduce, 1 << 21), None);
        assert_eq!(tuned(Operation::AllGather, 50), None);
        let one = Communicator::new(Facts::nvswitch(90, 8, 1), Version::NEWEST, Knobs::default()).unwrap();
        assert_eq!(file.tuned(&one, Operation::AllReduce, 8, Element::default()), None);
    }

    #[test]
    fn lines_that_are_no_rules_are_told() {
        for (line, part) in [
            ("allreduce,0,1", "collective_type"),
            ("alltoall,0,1,ring,ll,-1,-1,-1", "allreduce"),
            ("allreduce,x,1,ring,ll,-1,-1,-1", "bytes"),
            ("allreduce,0,1,rong,ll,-1,-1,-1", "nvls_tree"),
            ("allreduce,0,1,ring,lll,-1,-1,-1", "LL128"),
            ("allreduce,0,1,ring,ll,many,-1,-1", "-1 for any"),
        ] {
            let error = TunerFile::parse(&format!("# one\n{line}\n")).unwrap_err();
            assert_eq!(error.line, 2);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
