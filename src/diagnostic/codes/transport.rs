//! The pages of findings about transport over packets.

pub(super) const BAD_THRESHOLDS: &str = "Two thresholds of the transport contradict each other, or one can never be reached: marks that begin above where all is
marked (`kmin` above `kmax`), a pause that ends above where it begins (`xon` not below `xoff`), a share `alpha` of nothing, an
index whose least is above its limit.

    [transport.ecn]
    kmin = \"1600 KB\"
    kmax = \"400 KB\"      # turned round? kmin = \"400 KB\", kmax = \"1600 KB\"

The message has both values.";

pub(super) const BUFFER_OVERCOMMITTED: &str = "Each input of a switch has a reserve and a headroom of its own for each lossless class, and what is left is shared. Here nothing
is left: inputs x classes x (headroom + reserve) reach the buffer, or a fixed `xoff` lies above it, so that no pause would come before a drop.

    [transport.pfc]
    headroom = \"1 MB\"      # x 64 inputs = 64 MB, and the switch has 32 MiB

The message has the largest headroom that fits. A smaller one than the cables need is warned of (W110).";

pub(super) const BUFFER_TOO_SMALL: &str = "A buffer must hold one full packet with its headers at least, or nothing could ever be sent: `buffer.size` of a switch, or
`credits.per_lane`, which is counted in blocks of 64 B and can announce at most 2,048 of them (128 KiB).

    [transport.credits]
    per_lane = \"4 KiB\"     # a packet of 4096 + 26 B takes 65 blocks, 4160 B";

pub(super) const OTHER_FLOW_CONTROL: &str = "A table under `[transport]`, or a key of a class, belongs to a flow control that is not the one in force: pauses for traffic that
is dropped, credits beside pauses, a class that is to be lossless where all is dropped.

    [transport]
    flow_control = \"drop\"
    [transport.pfc]          # flow_control = \"pfc\" pauses
    alpha = 0.125";

pub(super) const GAVE_UP: &str = "A queue pair heard nothing for `retries` timeouts in a row, as with a link that loses all it carries, and its message never
arrives; on hardware the connection breaks with an error (retry count exceeded). The run ends there, with exit code 4.

    [transport]
    rto = \"1 ms\"
    retries = 7

The message names the first flow.";

pub(super) const NO_PROGRESS: &str = "Something is to be sent and nothing new arrives any more, though no ports wait for each other in a circle (that is E072). The message
says why, where it is known:

- a port that is held for ever: a NIC that pauses its switch without end (a fault `pause-storm`);
- packets that were dropped or lost, and `transport.recovery` is none;
- what arrives was there before: each attempt of go-back-0 loses a packet, and the message begins again.

The run ends there, with exit code 4: at once if nothing is left to happen, else after `limits.stall` of simulated time without new data.

    [limits]
    stall = \"5 s\"                  # 1 s without this key, or what all retries of a sender take
    [transport]
    pfc.watchdog = \"200 ms\"       # drops what waits for a port that is held for so long";

pub(super) const REORDERED_PATHS: &str = "Where switches choose the path of each packet, packets overtake each other. A receiver with go-back-n takes that for a loss each
time and has everything sent again; hardware switches one on only with the other.

    [transport]
    path_choice = \"adaptive\"
    recovery = \"selective\"     # the default with such paths";

pub(super) const NOT_OVER_PACKETS: &str = "Some things are modelled on virtual links alone: reductions in switches (NVLS over nodes, CollNet), links that flap, a cable that
is dead in one direction only, routes that enter the network twice. Of paths that are chosen once for a flow all workloads have those
of the fabric; those that switches choose packet by packet each may have of its own.

    [transport]
    model = \"virtual\"";

pub(super) const GRANTS_DROPPED: &str = "Under `rate_control = \"receiver\"` senders ask and receivers grant in control packets, which are not sent again. Where these wait
as data do and switches may drop data (a lossy class, or a watchdog of pauses), a sender whose grant is dropped would wait for ever.

    [transport]
    rate_control = \"receiver\"
    control_class = \"express\"     # the default";

pub(super) const HEADROOM_SMALL: &str = "After an input has asked for a pause, data arrive until the pause acts: what is on the cable both ways, a packet that delays the
frame, one that the sender can't abort, and what it sends until it responds: H = 2 d C + 2 S + 84 B + t C. With less than that a
lossless class drops. At 400 Gb/s over 100 m, with packets of 4178 B and the bound of IEEE 802.3 for t, that is 116.4 KB.

Leave `transport.pfc.headroom` out to have what the longest and fastest link needs.";

pub(super) const MARKS_AFTER_PAUSES: &str = "Marks are to slow senders down before anything is paused, so `ecn.kmin` must lie below the threshold at which a single input is
paused. Here it doesn't: congestion is met by pauses alone, which hold flows that have no part in it.

With n ports that all share one buffer, marks come first for sure only if kmin < a (B - n h) / (n (1 + a)), with the buffer B,
the headroom h of a port and the share a (DCQCN, SIGCOMM 2015, section 4); the message has that bound too.";

pub(super) const UNPROTECTED: &str = "Packets are dropped where a buffer is full, and no mark and no delay tells a sender: each sends at line rate, and most of what it
sends is dropped and sent again. That is goodput collapse, and rarely what is meant.

    [transport]
    rate_control = \"dcqcn-firmware\"     # with marks, or flow_control = \"pfc\"

Or packets are lost on the wire (`packet_loss`) and `recovery` is none: messages that lose one never arrive.";

pub(super) const CREDITS_SHORT: &str = "A link carries at most the credits of a lane for each round of them: V / t with t = 2 d + release + packet of credits + one full
packet. Here that is less than the link's rate. With 300 ns to release and 4122 B packets, 400 Gb/s need 64 KiB up to 93 m and
128 KiB up to 224 m.

The message has the rate that is left.";

pub(super) const DEAF_CONTROL: &str = "The rate control waits for marks, and nothing marks: senders stay at line rate.

    [transport]
    rate_control = \"dcqcn\"
    [transport.ecn]
    marking = \"red\"";

pub(super) const EARLY_TIMEOUT: &str = "A sender goes back when nothing was acknowledged for `transport.rto`. Where that is less than an unloaded round trip of the longest path,
it goes back although nothing is lost: everything is sent again and again, and after `retries` of them in a row it gives up (E114).

    [transport]
    rto = \"67 ms\"     # the default; well above the round trip with full queues";

pub(super) const PORT_HELD: &str = "A port was paused, or without credit, for more than half of the run. What waits behind it goes nowhere, whether or not it goes
where the congestion is: those flows are victims. The message names the port, the root of the congestion and the victims.

Marks and a rate control (`transport.rate_control`) keep queues short, credits with adaptive paths go round, classes keep apart. Against
a pause storm none of that helps: it is named, and `transport.pfc.nic_watchdog` and `transport.pfc.watchdog` end it.";

pub(super) const DROPPED: &str = "Packets of a class that is to be lossless were dropped: the watchdog gave up on a port, or a headroom overflowed. They were sent
again if `transport.recovery` says so; on hardware such losses show as retransmissions and rare long stalls.";

pub(super) const COARSE_UNITS: &str = "`transport.grain` lets several packets move as one. Where nothing binds that changes no time on the network (the host's links
behind a NIC take a unit with its tail: half a per cent of a collective at the most measured). Here something was marked, paused,
dropped or waited for credits, and units meet that otherwise than single packets: they take turns at ports as a whole, a pause comes
after the unit that has begun, so that each input has room for a unit beside the buffer and a headroom that is too small drops
less than it would, and a sender hears of marks once a unit. docs/models.md (granularity) has the errors that were
measured: to a per cent or two with units of 4, up to 12 % with units of 16 where a rate control slows many senders down.

    [transport]
    grain = 1          # single packets
    grain = \"auto\"     # units of 16 as long as nothing can bind";

pub(super) const AT_THE_LIMIT: &str = "Most of the time queues stood beyond where all is marked, or most packets came back marked: the control can't slow this many
senders down enough. With DCQCN's paper values and marks (5 to 200 KB, 1 %) that is so from about 16 long flows at 40 Gb/s to one
port on (docs/models.md has the fixed point); other values, marks and rates have another number, and messages that end before the
control has settled count as well. What remains is pausing or dropping.";
