fn main() -> std::process::ExitCode {
    redouble::run_main()
}
