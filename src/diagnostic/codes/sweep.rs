//! The pages of findings about rows of sweeps.

pub(super) const OTHER_SWEEP: &str = "A file of rows was to be gone on with by `--resume`, or put together with others by `sweep merge`, and its rows are of another
sweep. The last column names the sweep of a row: a hash of the grid, the columns, the scenario with all that it names, and the
version of fabricsim, and how many points there are. If any of these changes, rows of before don't belong to those of after.

Give another name by `--out`. The file is left as it is.";

pub(super) const MISSING_ROWS: &str = "`sweep merge` puts the shards of a sweep together only if all points are there:

    $ fabricsim sweep merge part1.csv part2.csv --out all.csv
    error[E064]: 333 points of 1000 missing: 2, 5, 8, 11, …

Give the files of all shards. A shard that was interrupted goes on by `--resume`.";
