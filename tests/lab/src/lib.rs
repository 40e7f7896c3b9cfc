//! Boots KVM hosts with guests and talks to their agents.
