//! The registry of codes: one entry gives the code, its short title and its page.
//!
//! To add one, add a line here; `fabricsim explain CODE`, SARIF rules and completions follow.

mod step;
mod sweep;
mod transport;

use core::fmt;

use super::Severity;

/// A registered code with its page.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// `E012`.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// The page that `explain` prints: what it means, an example, what to do.
    pub page: &'static str,
}

macro_rules! codes {
    ($($name:ident = $id:literal, $title:literal, $page:expr;)*) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = concat!("`", $id, "`: ", $title, ".")] $name,)*
        }

        impl Code {
            /// All codes, in order of their numbers within errors and warnings.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The entry of the registry.
            #[must_use]
            pub const fn entry(self) -> Entry {
                match self {
                    $(Self::$name => Entry { id: $id, title: $title, page: $page },)*
                }
            }
        }
    };
}

impl Code {
    /// `E012`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.entry().id
    }

    /// Error or warning, by the letter.
    #[must_use]
    pub fn severity(self) -> Severity {
        if self.id().starts_with('W') { Severity::Warning } else { Severity::Error }
    }

    /// The code called `id`, in any case.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.id().eq_ignore_ascii_case(id.trim()))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

codes! {
    Unreadable = "E001", "a file cannot be read",
"The file is missing, is a folder, or may not be read.

    $ fabricsim check clutser.toml
    error[E001]: cannot read `clutser.toml`

Look at the path and its permissions. A scenario named without a path is looked for in the current folder. `-` reads
standard input. `fabricsim init` writes a scenario to start from.";

    NotText = "E002", "a file is not UTF-8 text",
"A scenario is TOML, and TOML is UTF-8 text. The file has bytes that are not, which happens with archives, images,
results in another format, or UTF-16 from some Windows editors.

Save the file as UTF-8, or give the file that was meant. The message names the first byte that is wrong.";

    TooLarge = "E003", "a scenario is larger than 4 MiB",
"Scenarios are written by people or small scripts; 4 MiB is room for some 50,000 lines. A larger file is refused before
it is parsed, since it is most likely a log or a trace given by mistake.

Describe regular traffic by a pattern (`pattern = \"all_to_all\"`) rather than by a list of each transfer.";

    Syntax = "E004", "not valid TOML",
"The text does not follow the grammar of TOML 1.1. Frequent causes:

    system = hgx-h100          # text needs quotes:  system = \"hgx-h100\"
    nodes = 2 gpus_per_node=8  # one key a line
    [[workload]                # brackets come in pairs

https://toml.io has the grammar on one page.";

    Cycle = "E005", "`extends` runs in a circle",
"A scenario can take its defaults from another by `extends = \"base.toml\"`, which can do so again, up to 16 files deep.
Here a file extends itself, directly or by way of others:

    a.toml: extends = \"b.toml\"
    b.toml: extends = \"a.toml\"

Take one of the `extends` out.";

    WrongType = "E010", "a value of the wrong type",
"The key takes another type of value than the one given:

    nodes = \"2\"       # a text; an integer is due:  nodes = 2
    graph = 1         # an integer; a boolean is due:  graph = true

`fabricsim schema --markdown` lists every key with its type.";

    MissingKey = "E011", "a required key is missing",
"A table lacks a key without which it has no meaning, such as the `op` of a collective or the `system` of a scenario:

    [[workload]]
    kind = \"collective\"
    op = \"all_reduce\"   # this line was missing";

    MissingUnit = "E012", "a quantity without a unit",
"A bare number could be bits or bytes, microseconds or nanoseconds, so every quantity names its unit:

    rate = \"400 Gb/s\"      # bits:  b
    rate = \"50 GB/s\"       # bytes: B, the same rate
    size = \"64 KiB\"        # 65,536 bytes; \"64 KB\" is 64,000
    latency = \"1.5 us\"     # ps, ns, us, ms, s, min, h, d

Only the nccl-tests flags -b -e -f -n -w take bare numbers, as they do in nccl-tests.";

    BadUnit = "E013", "an unknown unit, or one of another kind",
"The unit is not known, or it measures something else than what the key holds:

    rate = \"400 GB\"        # a size; a rate is due:  \"400 Gb/s\" or \"50 GB/s\"
    latency = \"2 KiB\"      # a size; a time is due:  \"2 us\"
    rate = \"32 GT/s\"       # line symbols, not data; PCIe 5.0 x16 carries \"63 GB/s\"

`b` is bits and `B` is bytes, exactly.";

    NotPositive = "E014", "not a number above zero",
"The quantity is zero, negative, infinite or not a number at all, where only a finite number above zero makes sense.

    rate = \"0 GB/s\"     # a dead link is modelled by leaving it out
    latency = \"-1 us\"";

    Overflow = "E015", "a number too large to count",
"Times are counted in picoseconds, in 64 bits: up to 213 days. A size has at most 1 PiB, since the steps of larger calls can't
be counted. The value is beyond.

    size = \"1e30 GB\"

Look for a wrong exponent or unit.";

    OutOfRange = "E016", "a number outside its range",
"The number is well formed but outside what the key can mean; the message gives the range.

    nodes = 0            # at least 1
    oversubscription = 0.5   # at least 1: a ratio of 1 is non-blocking";

    NotDivisible = "E017", "counts that do not divide",
"Two counts must divide, and do not, or more is asked for than is there:

    gpus_per_node = 9    # the system has 8 GPUs a node
    ranks = 20           # of a cluster with 16 GPUs

The message shows both numbers.";

    BadName = "E018", "a name or text that cannot be read",
"The text is not in the form that the key takes, for instance NICs as COUNTxRATE or a device as nodeN.gpuM:

    nics = \"8x400Gb/s\"
    src = \"node0.gpu3\"     # or a rank number: src = 3";

    UnknownSystem = "E020", "an unknown system or preset",
"No system of that name is in the catalogue.

    $ fabricsim catalog              # lists all
    $ fabricsim catalog hgx-h100     # shows one, with the source of each value

A machine that is not in the catalogue can be described by an inline `[node]` table.";

    UnknownChoice = "E021", "an unknown choice",
"The key takes one of a few words, and this is none of them. The message lists them all.

    [fabric]
    kind = \"rail-optimised\"   # known: rail-optimized, leaf-spine, single-switch";

    UnknownDevice = "E022", "an unknown device",
"Devices are named by node and number, all from 0: `node12.gpu3`, `node12.nic4`, `node12.socket0`, `leaf4`, `spine2`. A
plain number is a rank: rank 9 on nodes with 8 GPUs is `node1.gpu1`.

    $ fabricsim topo cluster.toml      # lists the devices of a scenario";

    UnknownModel = "E023", "an unknown part in the catalogue",
"A GPU, NIC, switch or CPU model of that name is not in the catalogue. `fabricsim catalog` lists what is.";

    UnknownTransformer = "E024", "an unknown model of a step", step::UNKNOWN_MODEL;

    NoKernelRates = "E025", "no rates of kernels for a GPU", step::NO_KERNEL_RATES;

    Exclusive = "E030", "keys that exclude each other",
"Two keys say the same thing in different ways, so only one can be given:

    system = \"hgx-h100\"     # by name
    [node]                  # or described in place, not both";

    Impossible = "E031", "the fabric cannot be built",
"Ports, rails or rates do not add up. The message states the inequality:

    16 leaves x 32 uplinks = 512 ports, but 3 spines x 64 = 192

Add spines, allow oversubscription, or leave the count out: then the smallest number that fits is taken.";

    NoPath = "E032", "no path between two devices",
"The devices are not connected in this fabric by any path that may carry data, or they are one and the same.

    $ fabricsim path cluster.toml node0.gpu0 node0.gpu1 --no-nvlink     # no PCIe peer-to-peer on this system

`fabricsim topo` shows what is connected to what.";

    BadFault = "E035", "a fault that cannot be",
"Faults contradict each other, or ask of a thing what it can't be: a dead link that is slow as well, two schedules of
outages on one link, a leaf that straggles, a link that a fault makes faster.

    [[fault]]
    kind = \"degraded\"
    target = \"leaf0->spine1\"
    rate = \"25 GB/s\"       # and `factor = 0.5` beside it would set the rate twice

docs/faults.md has each kind with what it acts on.";

    Partition = "E036", "the fabric falls apart",
"With its faults the fabric has GPUs that can't reach each other, so that nothing could be run across it. The message
names some of the pairs and counts all of them. Routes go as they would on a healthy fabric: up to a spine and down
again, never up twice, and over a relay GPU where PXN is on.

Take a fault out, or leave the GPUs behind it out of the work.";

    DeadDevice = "E037", "work on a dead device",
"A workload uses a GPU, or another device, that a fault has declared dead. A job that lost a GPU does not run: a scheduler
starts it again without that one, or without its node.

    [[workload]]
    kind = \"collective\"
    op = \"all_reduce\"
    group = [0, 1, 2, 3, 4, 5, 6]   # rank 7 is dead";

    Unsupported = "E040", "not offered in this combination",
"The operation has no such algorithm or protocol on this system: NVLS needs NVSwitch of the Hopper generation or later
and all GPUs in one NVLink domain, LL128 needs NVLink or a network path that keeps 128-byte stores whole. Leave
`algorithm` and `protocol` out to have them chosen as NCCL does; `fabricsim bench --explain` shows why.";

    UnknownKey = "E050", "an unknown key",
"The table has no such key. A misspelt key must not be ignored: the run would use a default in its place.

    [fabric]
    spine = 4      # did you mean `spines`?

`fabricsim schema --markdown` lists every key; editors complete them from `fabricsim schema`.";

    NewerSchema = "E052", "a scenario of a newer schema",
"The file states a `schema` version that this build does not know. Use a newer fabricsim, or write the file for the
schema this one knows (`fabricsim schema` states it).";

    NoWorkload = "E060", "nothing to run",
"`run` needs at least one `[[workload]]`; `check`, `topo` and `path` do without.

    [[workload]]
    kind = \"collective\"
    op = \"all_reduce\"
    min = \"8 B\"
    max = \"8 GiB\"";

    OtherSweep = "E063", "rows that are not of this sweep", sweep::OTHER_SWEEP;

    MissingRows = "E064", "rows of a sweep are missing", sweep::MISSING_ROWS;

    Limit = "E070", "stopped at a limit",
"The run reached the limit of events or simulated time given under `[limits]`, or the end of simulated time itself: 2^64
picoseconds, about 213 days. Results up to there are kept and marked. Raise the limit, or make the work smaller.";

    Deadlock = "E072", "deadlock",
"Lossless queues wait for each other in a circle, so that nothing moves any more. The message names the cycle of links.
Remedies are the same as in a real fabric: up/down routing, other priorities, or a watchdog.";

    Interrupted = "E073", "interrupted",
"The run was stopped by Ctrl-C or a signal to terminate. The sizes and workloads that were complete by then are shown and
stored; the others are absent. The exit code is 130. A second Ctrl-C ends the program at once.";

    BadArgument = "E080", "a command-line value that cannot be used",
"The value of a flag or argument is not in the form it takes; the message marks the part. Each verb has `--help` with
examples.";

    Exists = "E081", "the output exists already",
"fabricsim overwrites nothing unasked. Give another name, or add `--force`.

    $ fabricsim init rail-4x8 --force";

    Unwritable = "E082", "the output cannot be written",
"The folder is missing, is not a folder, is read-only or is full. Output is written to a temporary file beside its place
and renamed when it is complete, so the folder itself must be writable, and no half-written file is ever left.";

    BadLog = "E090", "a measurement file cannot be read",
"The file holds no complete row of an nccl-tests table. `compare` takes the text output of nccl-tests in any layout (with
MPI or srun prefixes, INFO lines, several tables), or its JSON. A log with at least one complete row is used, and its
damage is warned of.";

    Threshold = "E091", "a threshold was missed",
"The run or comparison completed, and a threshold given by the user (`--max-mape`, `--gate-file`) was not met. The exit
code is 1.";

    BadImport = "E092", "a file cannot be imported",
"The file given to `import` is not what it was taken for, or is too damaged: XML that is not well-formed or has a DOCTYPE, a
graph file given as a topology, text without a row of `nvidia-smi topo -m`, a file of more than 64 MiB. The message marks
the place. `--kind` says what a file is where its content does not.

    $ nvidia-smi topo -m | fabricsim import -
    $ fabricsim import nccl-topo.xml --kind nccl-xml

A text that merely ends too early is read as far as it goes, with a warning.";

    Unidentified = "E093", "the rows cannot tell a parameter",
"`fit` was asked for a timing parameter that the given rows do not determine: no prediction of theirs depends on it, or it
changes them in the same way as another one does, so that only the two together are known. A number would be made up.

The message says which, why, and which rows would tell. Leave it out, or give a log with such rows:

  fabricsim fit allreduce.log allgather.log --system hgx-h100 --parameters launch.kernel_us,nvlink.ll_us

Tables of different GPU generations or transports have parameters of the same names that are not the same; fit each by
itself. docs/fitting.md has the measure: a standard error as large as the value, for rows that scatter by 3 %.";

    Internal = "E099", "an internal fault",
"fabricsim is wrong, not the input. Please report it with the command line, the scenario and the version.";

    BadThresholds = "E110", "thresholds the wrong way round", transport::BAD_THRESHOLDS;

    BufferOvercommitted = "E111", "more is set aside than a switch has", transport::BUFFER_OVERCOMMITTED;

    BufferTooSmall = "E112", "a buffer that holds no packet", transport::BUFFER_TOO_SMALL;

    OtherFlowControl = "E113", "settings of another flow control", transport::OTHER_FLOW_CONTROL;

    GaveUp = "E114", "a sender gave up", transport::GAVE_UP;

    NoProgress = "E115", "nothing arrives any more", transport::NO_PROGRESS;

    ReorderedPaths = "E117", "paths that reorder, and a receiver that takes gaps for losses", transport::REORDERED_PATHS;

    NotOverPackets = "E118", "not possible where packets are played", transport::NOT_OVER_PACKETS;

    GrantsDropped = "E119", "grants that may be dropped", transport::GRANTS_DROPPED;

    BadSizes = "E120", "sizes of a step that cannot be", step::BAD_SIZES;

    DoesNotFit = "E121", "a step does not fit into memory", step::DOES_NOT_FIT;

    BothDirections = "W003", "looks like the sum of both directions",
"Rates are per direction. Data sheets give NVLink as the sum of both: NVLink 4 is sold as 900 GB/s and carries 450 GB/s
each way (18 links of 25 GB/s). Twice as much bandwidth as there is makes every prediction too good.

    rate = \"450 GB/s\"
    rate = { both_directions = \"900 GB/s\" }   # the same, halved for you";

    NoEffect = "W010", "a setting without effect",
"The key or variable is valid, but nothing in this scenario depends on it: a number of spines in a single-switch fabric,
an `NCCL_*` variable that nothing simulated looks at, an algorithm forced on sends and receives, launches captured in a
graph, a ratio that whole links cannot give. The message says why.";

    FaultOddity = "W015", "faults that overlap or change nothing",
"Two faults act on one link, of which the later acts on what the first left; or a fault changes nothing, such as a factor
of 1, a delay of zero, or the death of what is dead.";

    FarNic = "W020", "GPUs use NICs that are not the nearest",
"`nic_policy` or `nic_map` gives a GPU a NIC on another PCIe switch, root port or socket than the nearest one. Its traffic
then shares uplinks and the link between sockets, and beyond the level that `gpudirect` allows it goes through host memory:
two copies more at each side. Several GPUs on one NIC share its rate.

    [software]
    nic_policy = \"nearest\"        # PIX where the node has it";

    PostedWrites = "W021", "writes that are known to collapse",
"Two or more GPUs below one PEX890xx switch (four or more below a PM50100) write to GPUs below two or more other root ports at
the same time. On such boxes the rate of posted writes was measured to fall from 37 to 2.7 GB/s (from 52 to 7 GB/s). The model
doesn't contain this: its figures are those of healthy switches. Reads are not affected; nor are writes to one root port at a
time.";

    LogDamage = "W030", "a damaged measurement file",
"Part of the log could not be read (cut lines, binary bytes, rows with missing columns), or does not count: a time of zero, a
result that nccl-tests' own check found wrong, figures of a row that contradict each other. The message has the lines. All
other rows are used.";

    Assumed = "W031", "taken from a log, or guessed",
"`compare` takes what it was not told from the log itself: the system from the name of the GPUs, the nodes from the hosts
in the list of ranks, NCCL's version and variables from the lines it prints. What neither tells is assumed: the newest NCCL,
the system's usual transport. The message says what was taken and what was assumed. Flags win:

    $ fabricsim compare nccl.log --system hgx-h100 --nodes 2 --transport roce";

    OtherGpu = "W032", "a log of other GPUs than the system's",
"The list of ranks in a log names its GPUs, and `--system`, or the scenario, has others: another chip, or another form of it (PCIe,
SXM, NVL). Errors are then the difference between two machines. Leave `--system` out to take it from the log, or give the
one that the log was made on. Names that the catalogue doesn't know are not warned of.";

    NvlinkLost = "W060", "a GPU with fewer NVLinks than its peers",
"One GPU shows no NVLinks, or fewer of them, where the others have more: its links are down, or its fabric was not set up
(`nvidia-smi nvlink -s`, the fabric manager's log). In `topo -m` its row is NODE or SYS amid NV18. The imported node is
like the host: such a GPU is under `nvlink.lost` and talks to its peers over PCIe, and a ring through it is as slow.";

    LinkDown = "W061", "a PCIe link below its width or speed",
"A link is slower or narrower than those of its peers or than both ends can: `2.5 GT/s` on a GPU that idles (links train up
under load), x8 in place of x16 after bad contact, a virtual machine that shows a default. NCCL plans with what it reads:
at 2.5 GT/s its channels get a tenth of the rate. The imported node is as the file says, under `trained`;
`import --full-links` lifts what trained down.";

    DistantNic = "W062", "a NIC with no GPU near it, or a GPU with no NIC",
"NIC and GPU are near if one PCIe switch, or a tree of them, has both (PIX, PXB). Beyond that traffic crosses the CPU, and
GPUDirect RDMA may be off (`NCCL_NET_GDR_LEVEL`). NICs without a GPU near them often carry storage or management; take them
out of the node if NCCL does not use them (`NCCL_IB_HCA`).";

    NvlinkTarget = "W063", "an NVLink whose other end is not shown",
"In virtual machines NCCL sees NVLinks and not what they lead to: `fffffff:ff:ff.0` for an NVSwitch that stays with the host,
or the GPU itself. For switches the number of chips is taken from the catalogue. From a GPU to itself nothing is taken over,
as the pairs cannot be told; give them by `nvlink = { pairs = [[0, 1, 12]] }`.";

    NumaLayout = "W064", "NUMA nodes that are not sockets, or unknown",
"A socket may be several NUMA nodes (AMD's NPS2 and NPS4, Intel's SNC), and then `topo -m` and NCCL show SYS within a socket,
where no link between sockets is crossed. In a virtual machine the NUMA node may be unknown (-1), or everything hangs on one
host bridge (PHB), so that NICs and GPUs that are near each other cannot be told.";

    ImportContradiction = "W065", "parts of a file that cannot hold together",
"Classes of paths are nested: if A and B are PIX, and B and C are PIX, then A and C are; the matrix is symmetric; NODE joins
devices of one NUMA node. Where a file breaks this (edited, pasted from two hosts, read inside a container) the message says
which cell, and what the node has instead.";

    ImportIncomplete = "W066", "rows or elements are missing",
"The file was cut, or was printed where not all devices can be seen. What is there is used: cells of a missing row are taken
from the columns of the others, devices that no line mentions do not exist.";

    ImportDuplicate = "W067", "a bus id or row that is there twice",
"Each device of a host has a bus id of its own and one row. The second is left out.";

    MixedDevices = "W068", "GPUs or NICs that are not all alike",
"A node has one model of GPU, and one model and speed of NIC. All are taken as most are; make the node from those that take
part, or say which model is meant: `--gpu`, `--nic`.";

    ImportValue = "W069", "a value that is not plain",
"A speed, width or number in the file cannot be read, is zero or empty, or is spelled in a way that NCCL does not know (it
then takes 8 GT/s). The message says what was taken in its place.";

    HeadroomSmall = "W110", "headroom below what can still arrive", transport::HEADROOM_SMALL;

    MarksAfterPauses = "W111", "pauses come before marks", transport::MARKS_AFTER_PAUSES;

    Unprotected = "W112", "nothing slows senders down, or sends again", transport::UNPROTECTED;

    CreditsShort = "W113", "credits too few for the cable", transport::CREDITS_SHORT;

    DeafControl = "W114", "a rate control that hears nothing", transport::DEAF_CONTROL;

    EarlyTimeout = "W115", "a timeout below the round trip", transport::EARLY_TIMEOUT;

    PortHeld = "W116", "a port was held for most of the run", transport::PORT_HELD;

    Dropped = "W117", "a lossless class lost packets", transport::DROPPED;

    CoarseUnits = "W118", "units of several packets met back-pressure", transport::COARSE_UNITS;

    AtTheLimit = "W119", "the rate control is at its limit", transport::AT_THE_LIMIT;

    WouldNotFit = "W120", "what would not fit into memory", step::WOULD_NOT_FIT;

    LeavesScaleUp = "W121", "tensor parallelism over NICs", step::LEAVES_SCALE_UP;
}
