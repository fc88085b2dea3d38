//! An observer that keeps notices for later.

use std::cell::RefCell;

use acestep_engine::{Event, Notice, Observe};

/// An observer that passes everything on, and keeps the notices.
pub(super) struct Noting<'a> {
    observe: &'a dyn Observe,
    notices: RefCell<Vec<Notice>>,
}

impl<'a> Noting<'a> {
    /// Begins after `notices`, which are not passed on.
    pub(super) fn after(notices: Vec<Notice>, observe: &'a dyn Observe) -> Self {
        Self { observe, notices: RefCell::new(notices) }
    }

    /// All notices so far.
    pub(super) fn notices(self) -> Vec<Notice> {
        self.notices.into_inner()
    }
}

impl Observe for Noting<'_> {
    fn event(&self, event: Event) {
        if let Event::Noticed(notice) = &event {
            self.notices.borrow_mut().push(notice.clone());
        }
        self.observe.event(event);
    }

    fn cancelled(&self) -> bool {
        self.observe.cancelled()
    }
}
