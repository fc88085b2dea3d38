//! Guard of a map: unreadable pages (after the end of a cut file, or from a failing disk) read as
//! zeros instead of ending the process by SIGBUS, and the event is recorded.
//!
//! The handler is installed with the first map and checks the address of the fault. Within one of
//! our maps, it maps pages of zeros from there to the end of the map, and the instruction runs
//! again. It passes every other fault to the previous handler. It takes no lock and allocates no
//! memory: maps are listed in leaked nodes, which are reused.
//!
//! Windows does not allow a mapped file to be cut.
//!
//! Source: POSIX `sigaction`; libwayland guards the memory that it shares with clients in this way
//! (`wl_shm_buffer_begin_access`).

use std::io;

/// A map whose faults are caught.
#[derive(Debug)]
pub(super) struct Guard {
    #[cfg(unix)]
    node: Option<&'static unix::Node>,
}

impl Guard {
    /// Catches the faults of `map`, which must live longer than the guard.
    pub(super) fn of(map: &[u8]) -> io::Result<Self> {
        #[cfg(unix)]
        {
            let node = if map.is_empty() { None } else { Some(unix::listed(map)?) };
            Ok(Self { node })
        }
        #[cfg(not(unix))]
        {
            let _ = map;
            Ok(Self {})
        }
    }

    /// True if a page could not be read since then.
    pub(super) fn is_hit(&self) -> bool {
        #[cfg(unix)]
        return self.node.is_some_and(unix::Node::is_hit);
        #[cfg(not(unix))]
        false
    }
}

#[cfg(unix)]
impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(node) = self.node {
            node.free();
        }
    }
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "signals and maps have no safe interface")]
mod unix {
    use std::{
        io, mem, ptr,
        sync::{
            OnceLock,
            atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
        },
    };

    use libc::{c_int, c_void, siginfo_t};

    /// A map, or a free entry for one.
    #[derive(Debug)]
    pub(super) struct Node {
        /// The first address of the map; [`FREE`] or [`TAKEN`].
        start: AtomicUsize,
        end: AtomicUsize,
        is_hit: AtomicBool,
        next: Option<&'static Self>,
    }

    /// Markers instead of an address; no map begins there.
    const FREE: usize = 0;
    const TAKEN: usize = 1;

    /// The newest node.
    static LAST: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

    /// The previous handler and the page size, or the number of an error.
    static BEFORE: OnceLock<Result<(libc::sigaction, usize), i32>> = OnceLock::new();

    impl Node {
        pub(super) fn is_hit(&self) -> bool {
            self.is_hit.load(Ordering::Acquire)
        }

        pub(super) fn free(&self) {
            self.start.store(FREE, Ordering::Release);
        }

        fn fill(&self, map: &[u8]) {
            let start = map.as_ptr().addr();
            self.is_hit.store(false, Ordering::Relaxed);
            self.end.store(start + map.len(), Ordering::Release);
            // This makes the node visible to the handler.
            self.start.store(start, Ordering::Release);
        }
    }

    fn nodes() -> impl Iterator<Item = &'static Node> {
        // SAFETY: nodes are never freed.
        let last = unsafe { LAST.load(Ordering::Acquire).as_ref() };
        std::iter::successors(last, |node| node.next)
    }

    /// Returns a node for `map`.
    pub(super) fn listed(map: &[u8]) -> io::Result<&'static Node> {
        if let Err(number) = BEFORE.get_or_init(install) {
            return Err(io::Error::from_raw_os_error(*number));
        }
        let take = |node: &&Node| {
            let free =
                node.start.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
            free.is_ok()
        };
        let node = nodes().find(take).unwrap_or_else(another);
        node.fill(map);
        Ok(node)
    }

    /// Adds a node, marked as taken.
    fn another() -> &'static Node {
        loop {
            let last = LAST.load(Ordering::Acquire);
            let node = Box::leak(Box::new(Node {
                start: AtomicUsize::new(TAKEN),
                end: AtomicUsize::new(0),
                is_hit: AtomicBool::new(false),
                // SAFETY: as in `nodes`.
                next: unsafe { last.as_ref() },
            }));
            let own: *mut Node = node;
            if LAST.compare_exchange(last, own, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // SAFETY: it is leaked, and all later writes go through atomics.
                return unsafe { &*own };
            }
            // SAFETY: it was not listed, so no other reference exists.
            drop(unsafe { Box::from_raw(own) });
        }
    }

    /// Installs the signal handler.
    fn install() -> Result<(libc::sigaction, usize), i32> {
        let number = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
        // SAFETY: these are plain C structures, for which zeros are valid; the handler only calls
        // functions that are allowed in a handler. Rust threads have a signal stack for it.
        unsafe {
            let mut before: libc::sigaction = mem::zeroed();
            let mut own: libc::sigaction = mem::zeroed();
            own.sa_sigaction = on_fault as *const () as usize;
            own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut own.sa_mask);
            if libc::sigaction(libc::SIGBUS, &own, &mut before) != 0 {
                return Err(number());
            }
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
            Ok((before, page))
        }
    }

    extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // The first map is created after this is set, so a fault before that is not ours.
        let Some(Ok((before, page))) = BEFORE.get() else { return default(signal) };
        // SAFETY: the system passes a complete structure to a handler of this kind.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
        // A memory error has another code and has nothing to do with files. On Apple's processors every
        // fault has the code of a wrong alignment (XNU, `bsd/dev/arm/unix_signal.c`).
        let is_of_file = cfg!(target_vendor = "apple") || code == libc::BUS_ADRERR;
        if is_of_file && put_zeros(address, *page) {
            return;
        }
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => default(signal),
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: it was registered as a function of this type.
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: it was registered as a function of this type.
                let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
                handler(signal);
            }
        }
    }

    /// Restores the default action of the system for the repeated instruction.
    fn default(signal: c_int) {
        // SAFETY: this call is allowed in a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }

    /// Maps pages of zeros from the page of `address` to the end of its map, if it is in one.
    fn put_zeros(address: usize, page: usize) -> bool {
        let of = |node: &'static Node| {
            let start = node.start.load(Ordering::Acquire);
            let end = node.end.load(Ordering::Acquire);
            let is_of = start > TAKEN && (start..end).contains(&address);
            // Another thread may reuse the node meanwhile; then start and end do not belong
            // together.
            let is_one = node.start.load(Ordering::Acquire) == start;
            (is_of && is_one).then_some((node, end))
        };
        let Some((node, end)) = nodes().find_map(of) else { return false };
        let start = address / page * page;
        let length = end.next_multiple_of(page) - start;
        node.is_hit.store(true, Ordering::Release);
        // SAFETY: these pages belong to one of our maps. It lives at least as long as this thread
        // reads it, and they are unmapped together with it.
        let zeros = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let place = ptr::with_exposed_provenance_mut(start);
            libc::mmap(place, length, libc::PROT_READ, flags, -1, 0)
        };
        zeros != libc::MAP_FAILED
    }
}
