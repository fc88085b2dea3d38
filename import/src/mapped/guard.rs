//! Pages of a map that lie behind the end of its file, or that the disk does not give, read as zeros
//! instead of ending the process by SIGBUS; that it happened is noted.
//!
//! The handler is installed with the first map and looks at the address of the fault: at one within a
//! map of ours it puts pages of zeros from there to the end of the map, and the instruction is done
//! again. Every other fault goes to whoever had the signal before. It takes no lock and asks for no
//! memory: maps are listed in nodes that are never given back, and used again.
//!
//! Windows does not let a file be cut while it is mapped.
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
    /// Catches the faults of `map`, which must not be let go before the guard is.
    ///
    /// # Errors
    /// If the system does not let the signal be caught.
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

    /// True if a page could not be read since.
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

    /// A map, or room for one.
    #[derive(Debug)]
    pub(super) struct Node {
        /// Its first address; [`FREE`] or [`TAKEN`].
        start: AtomicUsize,
        end: AtomicUsize,
        is_hit: AtomicBool,
        next: Option<&'static Self>,
    }

    /// No map begins at these addresses.
    const FREE: usize = 0;
    const TAKEN: usize = 1;

    /// The node that was made last.
    static LAST: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

    /// The handler before ours, and the size of a page; or the number of an error.
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
            // Only now does the handler see it.
            self.start.store(start, Ordering::Release);
        }
    }

    fn nodes() -> impl Iterator<Item = &'static Node> {
        // SAFETY: what was put there is never given back.
        let last = unsafe { LAST.load(Ordering::Acquire).as_ref() };
        std::iter::successors(last, |node| node.next)
    }

    /// A node for `map`.
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

    /// One node more, which is taken.
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
                // SAFETY: it is leaked, and nobody writes but through atomics.
                return unsafe { &*own };
            }
            // SAFETY: it was not listed, so that nobody else knows of it.
            drop(unsafe { Box::from_raw(own) });
        }
    }

    /// Takes the signal.
    fn install() -> Result<(libc::sigaction, usize), i32> {
        let number = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
        // SAFETY: all of these are plain C structures, for which zeros are a value; the handler keeps
        // to what a handler may do. Threads of Rust have a stack for it.
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
        // Nothing is mapped before this is known, so nothing of ours can fault.
        let Some(Ok((before, page))) = BEFORE.get() else { return default(signal) };
        // SAFETY: the system gives a handler of this kind a whole structure.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
        // A fault of the memory itself, which has another code, is no matter of files.
        if code == libc::BUS_ADRERR && put_zeros(address, *page) {
            return;
        }
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => default(signal),
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: it was registered as a function of this kind.
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: it was registered as a function of this kind.
                let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
                handler(signal);
            }
        }
    }

    /// Lets the system do what it does without a handler, when the instruction is done again.
    fn default(signal: c_int) {
        // SAFETY: a call that a handler may make.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }

    /// Puts pages of zeros from that of `address` to the end of its map, if it is in one.
    fn put_zeros(address: usize, page: usize) -> bool {
        let of = |node: &'static Node| {
            let start = node.start.load(Ordering::Acquire);
            let end = node.end.load(Ordering::Acquire);
            let is_of = start > TAKEN && (start..end).contains(&address);
            // Another thread may give the node to another map: then the two are of different ones.
            let is_one = node.start.load(Ordering::Acquire) == start;
            (is_of && is_one).then_some((node, end))
        };
        let Some((node, end)) = nodes().find_map(of) else { return false };
        let start = address / page * page;
        let length = end.next_multiple_of(page) - start;
        node.is_hit.store(true, Ordering::Release);
        // SAFETY: these pages are of a map of ours, which lives at least until this thread, which reads
        // it, goes on; they go away with it.
        let zeros = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let place = ptr::with_exposed_provenance_mut(start);
            libc::mmap(place, length, libc::PROT_READ, flags, -1, 0)
        };
        zeros != libc::MAP_FAILED
    }
}
