//! How a network request is cut over queue pairs (`src/transport/net_ib`).

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
