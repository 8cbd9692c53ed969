//! How clients wait for locks.
