import app  # reads the environment when it is imported

assert app.CLIENT
