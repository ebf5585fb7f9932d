//! How a network request is cut over queue pairs (`src/transport/net_ib`).

use serde::{Deserialize, Serialize};

use super::communicator::Communicator;
use super::knobs::Knob;

/// Most sockets of a connection (`src/transport/net_socket.cc`).
const MOST_SOCKETS: u32 = 64;

/// Bytes written by each of `qps` queue pairs for one request of `bytes` where requests are split
/// (`NCCL_IB_SPLIT_DATA_ON_QPS=1`): an equal share rounded up to 128 B, the last ones less or nothing.
///
/// ```
/// use sim_collectives::nccl::qp_split;
/// assert_eq!(qp_split(300, 4), [128, 128, 44, 0]);
/// ```
#[must_use]
pub fn qp_split(bytes: u64, qps: u32) -> Vec<u64> {
    let qps = u64::from(qps.max(1));
    let share = bytes.div_ceil(qps).div_ceil(128).saturating_mul(128);
    (0..qps).map(|i| bytes.saturating_sub(i.saturating_mul(share)).min(share)).collect()
}

/// The queue pairs of one connection. Each is one flow for the fabric: one path, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpPlan {
    /// Queue pairs per connection and NIC port.
    pub qps: u32,
    /// Whether a request is cut over all of them; otherwise requests take turns.
    pub split: bool,
}

impl QpPlan {
    /// The bytes that request number `request` of a connection puts on each queue pair.
    ///
    /// ```
    /// use sim_collectives::nccl::QpPlan;
    /// let turns = QpPlan { qps: 4, split: false };
    /// assert_eq!(turns.bytes(5, 1000), [0, 1000, 0, 0]);
    /// assert_eq!(QpPlan { split: true, ..turns }.bytes(5, 1000), [256, 256, 256, 232]);
    /// ```
    #[must_use]
    pub fn bytes(&self, request: u64, bytes: u64) -> Vec<u64> {
        if self.split {
            return qp_split(bytes, self.qps);
        }
        let qps = u64::from(self.qps.max(1));
        (0..qps).map(|qp| if qp == request % qps { bytes } else { 0 }).collect()
    }
}

impl Communicator {
    /// The sockets of a connection over TCP: `NCCL_SOCKET_NTHREADS` times `NCCL_NSOCKS_PERTHREAD`, 64 at most, one if
    /// neither is set; each message is cut over them.
    #[must_use]
    pub fn sockets(&self) -> QpPlan {
        let of = |knob| self.knobs().number(knob).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let count = of(Knob::SocketNthreads) * of(Knob::NsocksPerthread);
        QpPlan { qps: count.clamp(1, MOST_SOCKETS), split: true }
    }

    /// The queue pairs of its InfiniBand or RoCE connections: one unless `NCCL_IB_QPS_PER_CONNECTION` says more;
    /// requests were split by default up to 2.19.
    #[must_use]
    pub fn queue_pairs(&self) -> QpPlan {
        let qps = self.knobs().number(Knob::IbQpsPerConnection).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let default = !self.version().since(20);
        let split = self.knobs().number(Knob::IbSplitDataOnQps).map_or(default, |n| n == 1);
        QpPlan { qps, split }
    }

    /// Bytes above which a message of its connections is sent as data and, after it, a signal of its own, since adaptive
    /// routing lets data overtake each other: by default on InfiniBand, and above 8 KiB.
    #[must_use]
    pub fn signals_apart(&self, infiniband: bool) -> Option<u64> {
        let adaptive = self.knobs().number(Knob::IbAdaptiveRouting).map_or(infiniband, |n| n == 1);
        adaptive.then(|| self.knobs().number(Knob::IbArThreshold).and_then(|n| u64::try_from(n).ok()).unwrap_or(8192))
    }
}
