//! Agent that runs as PID 1 inside the test machines.
