//! Steps over a carrier, alone, several together, or beside other traffic.

use sim_core::units::{Span, Time};

use super::super::carrier::{Carrier, End, Start};
use super::super::outcome::Outcome;
use super::{PlayError, Player};

/// Traffic beside steps: a call of a communicator of its own, that begins again when it has ended, as long as a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The communicator, as the carrier numbers them.
    pub communicator: u32,
    /// The call, as the carrier numbers them.
    pub call: u32,
    /// Its members.
    pub members: u32,
    /// When it begins first.
    pub first: Time,
    /// From one's end to the next one's beginning; `None` if it comes once.
    pub again: Option<Span>,
}

/// What became of traffic by the end of the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// How often all of it had arrived.
    pub times: u64,
    /// What the first time took, if it came to its end.
    pub first: Option<Span>,
    /// What all these times took together.
    pub total: Span,
}

/// Traffic under way.
struct Traffic {
    what: Beside,
    /// When it begins next.
    next: Option<Time>,
    /// When it began last.
    began: Time,
    left: u32,
    arrived: Arrived,
}

/// Plays a step over a carrier.
///
/// # Errors
/// If a call can't be carried, ranks wait for each other, or `stop` says so (it is asked now and then).
pub fn play(player: Player<'_>, carrier: &mut dyn Carrier, stop: &dyn Fn() -> bool) -> Result<Outcome, PlayError> {
    let (mut outcomes, _) = play_together(vec![player], &[], carrier, stop)?;
    Ok(outcomes.pop().unwrap_or_default())
}

/// Plays several steps that begin together over one carrier, beside other traffic. The carrier's communicators and calls are those of
/// the players, one player's after the other's, and then what the traffic names. Also returned: what became of each traffic.
///
/// # Errors
/// As [`play`].
pub fn play_together(
    mut players: Vec<Player<'_>>,
    beside: &[Beside],
    carrier: &mut dyn Carrier,
    stop: &dyn Fn() -> bool,
) -> Result<(Vec<Outcome>, Vec<Arrived>), PlayError> {
    let waiting =
        |b: &Beside| Traffic { what: *b, next: Some(b.first), began: b.first, left: 0, arrived: Arrived::default() };
    let mut traffic: Vec<Traffic> = beside.iter().map(waiting).collect();
    // Tokens tell whose they are by their rest.
    let count = (players.len() + traffic.len()).max(1) as u32;
    let mut from = Vec::new();
    let (mut communicators, mut calls) = (0, 0);
    for player in &players {
        from.push((communicators, calls));
        communicators += player.communicators().len() as u32;
        calls += player.plan.calls.len() as u32;
    }
    let (mut own, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut begin = |players: &mut [Player<'_>], traffic: &mut [Traffic], carrier: &mut dyn Carrier, at: Time| {
        starts.clear();
        for (i, (player, (communicators, calls))) in players.iter_mut().zip(&from).enumerate() {
            player.starts(&mut own);
            starts.extend(own.iter().map(|start| Start {
                communicator: start.communicator + communicators,
                call: start.call + calls,
                token: start.token * count + i as u32,
            }));
        }
        for (i, of) in traffic.iter_mut().enumerate().filter(|(_, of)| of.next == Some(at)) {
            (of.next, of.began, of.left) = (None, at, of.what.members);
            let (communicator, call) = (of.what.communicator, of.what.call);
            starts.push(Start { communicator, call, token: (from.len() + i) as u32 });
        }
        if starts.is_empty() { Ok(()) } else { carrier.start(&starts, at) }
    };
    players.iter_mut().for_each(Player::begin);
    begin(&mut players, &mut traffic, carrier, Time::ZERO)?;
    let mut turns = 0u32;
    loop {
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(4096) && stop() {
            return Err(PlayError::Interrupted);
        }
        if players.iter().all(Player::is_done) {
            break;
        }
        let kernels = players.iter_mut().filter_map(Player::next_kernel).min();
        let kernels = kernels.into_iter().chain(traffic.iter().filter_map(|t| t.next)).min();
        let ended = carrier.next(kernels.unwrap_or(Time::MAX))?;
        let Some(now) = ended.or(kernels) else { break };
        if ended.is_some() {
            ends.clear();
            carrier.take(&mut ends);
            for end in &ends {
                let of = (end.token % count) as usize;
                if let Some(player) = players.get_mut(of) {
                    player.member_ends(End { token: end.token / count, ..*end });
                } else if let Some(of) = traffic.get_mut(of - from.len()) {
                    of.left -= 1;
                    if of.left == 0 {
                        let took = now.since(of.began);
                        of.arrived.times += 1;
                        of.arrived.first.get_or_insert(took);
                        of.arrived.total += took;
                        // A repeat without a gap still takes time to begin.
                        of.next = of.what.again.map(|gap| now + gap.max(Span::from_ps(1)));
                    }
                }
            }
        }
        for player in &mut players {
            player.kernels_end(now);
        }
        begin(&mut players, &mut traffic, carrier, now)?;
    }
    let arrived = traffic.iter().map(|t| t.arrived).collect();
    Ok((players.into_iter().map(Player::finish).collect::<Result<_, _>>()?, arrived))
}
