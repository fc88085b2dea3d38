//! A launch: blocks in clusters, which run until nothing is left.
//!
//! Every block gets its turn, so that blocks may wait for each other. If no thread makes progress, the launch fails.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::{
    decode::Code,
    execute::{Running, Turn},
    instruction::LANES,
    memory::{Allocations, Range},
    warp::{Places, Wait, Warp},
};

/// Alignment of shared memory: patterns of lines in it repeat after so many bytes.
const SHARED_ALIGNMENT: usize = 1024;

/// Turns of a cluster without progress, after which other clusters run.
const IDLE_TURNS: usize = 64;

/// Turns of all clusters without progress, after which the launch has failed.
const STALLED_TURNS: usize = 64;

/// Largest shared memory of a block without and with the function's attribute.
pub(crate) const SHARED_BY_DEFAULT: usize = 48 * 1024;

/// A kernel and the numbers of its launch.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) code: &'a Code,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: usize,
    pub(crate) parameters: Vec<Line>,
    pub(crate) allocations: &'a Allocations,
}

/// 64 bytes of parameters.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(#[expect(dead_code, reason = "read through pointers")] [u8; 64]);

impl Line {
    pub(crate) const ZERO: Self = Self([0; 64]);
}

/// A part of shared memory.
#[derive(Debug, Clone, Copy)]
#[repr(align(1024))]
struct Page(#[expect(dead_code, reason = "read through pointers")] [u8; SHARED_ALIGNMENT]);

/// A block of threads.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) at: [u32; 3],
    shared: Vec<Page>,
    shared_bytes: usize,
    pub(crate) barriers: [Barrier; 16],
    /// Threads that did not end.
    pub(crate) alive: u32,
}

/// A barrier of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Barrier {
    pub(crate) arrived: u32,
    pub(crate) generation: u32,
    /// The number of threads, or `None` for all.
    pub(crate) count: Option<u32>,
}

impl Block {
    pub(crate) fn shared_range(&self) -> Range {
        let start = self.shared.as_ptr() as u64;
        Range { start, end: start + self.shared_bytes as u64 }
    }

    /// Counts threads that arrive, and ends the generation if these are all.
    pub(crate) fn arrive(&mut self, id: usize, count: Option<u32>, threads: u32) {
        let barrier = &mut self.barriers[id];
        barrier.arrived += threads;
        barrier.count = count;
        self.complete(id);
    }

    fn complete(&mut self, id: usize) {
        let alive = self.alive;
        let barrier = &mut self.barriers[id];
        if barrier.arrived > 0 && barrier.arrived >= barrier.count.unwrap_or(alive) {
            barrier.arrived = 0;
            barrier.generation += 1;
        }
    }

    /// Counts threads that ended; barriers of all threads no longer wait for them.
    pub(crate) fn exit(&mut self, threads: u32) {
        self.alive -= threads;
        for id in 0..self.barriers.len() {
            if self.barriers[id].count.is_none() {
                self.complete(id);
            }
        }
    }
}

/// A copy by the copy engine that nobody has waited for.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    /// The block of the destination and of the barrier.
    pub(crate) block: usize,
    pub(crate) to: u32,
    pub(crate) barrier: u32,
    pub(crate) map: crate::tensor_map::TensorMap,
    pub(crate) at: Vec<i32>,
}

/// Blocks that run together and see each other's shared memory.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) blocks: Vec<Block>,
    warps: VecDeque<Warp>,
    /// Threads at the barrier of the cluster, and its generation.
    pub(crate) arrived: u32,
    pub(crate) generation: u32,
    pub(crate) pending: Vec<Pending>,
    idle: usize,
}

/// The result of a turn of a cluster.
enum Progress {
    Done,
    /// All wait, perhaps for other clusters.
    Stalled,
}

impl Cluster {
    fn new(launch: &Launch<'_>, index: u32) -> Self {
        let size = launch.code.cluster;
        let [x, y, _] = launch.grid;
        let wide = x / size;
        let threads: u32 = launch.block.iter().product();
        let shared_bytes = launch.code.shared_bytes + launch.dynamic_shared;
        let blocks = (0..size).map(|rank| Block {
            at: [index % wide * size + rank, index / wide % y, index / (wide * y)],
            shared: vec![Page([0xff; SHARED_ALIGNMENT]); shared_bytes.div_ceil(SHARED_ALIGNMENT)],
            shared_bytes,
            barriers: Default::default(),
            alive: threads,
        });
        let count = (threads as usize).div_ceil(LANES);
        let warps =
            (0..size as usize).flat_map(|block| (0..count).map(move |number| (block, number)));
        Self {
            blocks: blocks.collect(),
            warps: warps
                .map(|(block, number)| Warp::new(launch.code, launch, block, number))
                .collect(),
            arrived: 0,
            generation: 0,
            pending: Vec::new(),
            idle: 0,
        }
    }

    /// Runs until all threads ended or all wait. Also returns the number of instructions that made progress.
    fn run(&mut self, launch: &Launch<'_>) -> Result<(Progress, usize), String> {
        let mut useful = 0;
        self.idle = 0;
        while self.idle < IDLE_TURNS {
            let mut progress = 0;
            for _ in 0..self.warps.len() {
                let Some(mut warp) = self.warps.pop_front() else { break };
                let places = Places {
                    block: self.blocks[warp.block].at,
                    block_size: launch.block,
                    grid: launch.grid,
                    cluster: launch.code.cluster,
                    parameters: launch.parameters.as_ptr() as u64,
                    dynamic_shared: launch.dynamic_shared as u32,
                    clock: useful as u32,
                };
                let turn = Running { launch, cluster: self, warp: &mut warp, places }.turn()?;
                match turn {
                    Turn::Done(instructions) => progress += instructions.max(1),
                    Turn::Waits(instructions) => {
                        progress += instructions;
                        self.warps.push_back(warp);
                    }
                }
            }
            if self.warps.is_empty() {
                return Ok((Progress::Done, useful + progress));
            }
            useful += progress;
            self.idle = if progress == 0 { self.idle + 1 } else { 0 };
        }
        Ok((Progress::Stalled, useful))
    }

    /// Describes where threads wait.
    fn description(&self, code: &Code) -> String {
        let mut lines = Vec::new();
        for warp in self.warps.iter().take(8) {
            for group in &warp.groups {
                // Threads at a barrier stand behind it already.
                let is_behind = matches!(group.wait, Wait::Barrier { .. } | Wait::Cluster { .. });
                let text = code.texts.get(group.at - usize::from(is_behind));
                let text = text.map_or("the end", String::as_str);
                let wait = match group.wait {
                    Wait::Nothing => "runs",
                    Wait::Barrier { .. } => "waits at a barrier",
                    Wait::Cluster { .. } => "waits for its cluster",
                    Wait::Threads => "waits for threads of its warp",
                };
                let at = self.blocks[warp.block].at;
                lines.push(format!(
                    "block {at:?} warp {} threads {:#010x} {wait}: {text}",
                    warp.number, group.mask
                ));
            }
        }
        lines.join("\n")
    }
}

/// The clusters of a launch that are not done.
struct Queue {
    next: u32,
    stalled: VecDeque<Cluster>,
    running: usize,
    /// Turns of clusters since one of them came further.
    idle: usize,
    error: Option<String>,
}

impl Launch<'_> {
    /// Runs all blocks.
    ///
    /// # Errors
    /// An error of a thread: memory that is not there or not aligned, a trap, or threads that wait for each other for
    /// ever.
    pub(crate) fn run(&self) -> Result<(), String> {
        let blocks = self.grid.iter().map(|&count| u64::from(count)).product::<u64>();
        let clusters =
            u32::try_from(blocks / u64::from(self.code.cluster)).map_err(|_| "too many blocks")?;
        let queue = Queue { next: 0, stalled: VecDeque::new(), running: 0, idle: 0, error: None };
        let queue = Mutex::new(queue);
        let workers = if clusters == 1 { 1 } else { rayon::current_num_threads() };
        std::thread::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(|| self.work(&queue, clusters));
            }
            self.work(&queue, clusters);
        });
        let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        queue.error.map_or(Ok(()), Err)
    }

    fn work(&self, queue: &Mutex<Queue>, clusters: u32) {
        let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut cluster = {
                let mut queue = lock();
                if queue.error.is_some() {
                    return;
                }
                let cluster = if queue.next < clusters {
                    queue.next += 1;
                    Some(Cluster::new(self, queue.next - 1))
                } else {
                    // Those that compute may be what the others wait for.
                    let suspect =
                        queue.idle > STALLED_TURNS * (queue.stalled.len() + queue.running);
                    if suspect && queue.running > 0 { None } else { queue.stalled.pop_front() }
                };
                match cluster {
                    Some(cluster) => {
                        queue.running += 1;
                        cluster
                    }
                    None if queue.running == 0 => return,
                    None => {
                        drop(queue);
                        std::thread::yield_now();
                        continue;
                    }
                }
            };
            let result = cluster.run(self);
            let mut queue = lock();
            queue.running -= 1;
            match result {
                Ok((Progress::Done, _)) => queue.idle = 0,
                Ok((Progress::Stalled, useful)) => {
                    queue.idle = if useful > 0 { 0 } else { queue.idle + 1 };
                    let all = queue.stalled.len() + queue.running + 1;
                    let is_last = queue.running == 0 && queue.next == clusters;
                    if is_last && queue.idle > STALLED_TURNS * all {
                        let place = cluster.description(self.code);
                        queue.error = Some(format!("all threads wait for ever:\n{place}"));
                    }
                    queue.stalled.push_back(cluster);
                }
                Err(error) => queue.error = Some(error),
            }
        }
    }
}
