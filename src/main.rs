fn main() {
    redouble::run_main()
}
