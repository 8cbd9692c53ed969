def test_the_first_one_shuts_the_server_down(redouble, redouble_server):
    redouble.client().shutdown(nosave=True)


def test_and_the_next_one_has_another(redouble, redouble_server):
    assert redouble.client().ping() and redouble_server.running


def test_a_server_that_is_gone_is_told(redouble):
    redouble.client().shutdown(nosave=True)
    redouble.clock.freeze()
