// SPDX-License-Identifier: GPL-2.0-only

//! The declaration of a module's tracepoints (`shim/tracepoint.h`). Each module names its own in
//! `ffi/tracepoints.rs`.

use kernel::prelude::*;

/// A value of an event, and the type that C takes for it.
pub(crate) trait Value {
    /// The type in C.
    type Raw;

    /// Returns the value in C.
    fn raw(self) -> Self::Raw;
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Value for $type {
            type Raw = Self;

            fn raw(self) -> Self {
                self
            }
        }
    )*};
}

plain!(bool i32 u32 u64);

/// A word, which is copied into the event.
impl Value for &'static CStr {
    type Raw = *const c_char;

    fn raw(self) -> *const c_char {
        self.as_char_ptr()
    }
}

/// Declares two functions for each tracepoint: one returns whether it is on, which costs a call and
/// a no-op while it is off, and the other one passes it.
///
/// Both may be called in any context in which RCU is watching. All code of the modules runs in such
/// contexts, including code with interrupts off and locks held.
macro_rules! tracepoints {
    ($(
        $(#[$about:meta])*
        $is_on:ident = $c_is_on:ident, $pass:ident = $c_pass:ident($($value:ident: $type:ty),*);
    )*) => {
        extern "C" {
            $(
                fn $c_is_on() -> bool;
                fn $c_pass($($value: <$type as $crate::tracepoint::Value>::Raw),*);
            )*
        }

        $(
            /// Returns whether the tracepoint of the same name is on.
            #[inline]
            pub(crate) fn $is_on() -> bool {
                // SAFETY: The function reads a static key and nothing else.
                unsafe { $c_is_on() }
            }

            $(#[$about])*
            #[cold]
            pub(crate) fn $pass($($value: $type),*) {
                // SAFETY: The function copies its values. Pointers among them are those of
                // constants, which end with zero.
                unsafe { $c_pass($($crate::tracepoint::Value::raw($value)),*) }
            }
        )*
    };
}
pub(crate) use tracepoints;
