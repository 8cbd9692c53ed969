fn main() -> std::process::ExitCode {
    // Only this crate knows: `make build` links it statically, the library is compiled as always.
    redouble::run_main(cfg!(target_feature = "crt-static"))
}
