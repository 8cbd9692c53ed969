//! The libraries, called by scripts. What is expected is what Redis 7.0.15 answers.

use super::lua::{Frame, Lua, LuaError};
use super::{bit, cjson, cmsgpack, structs};

fn keep_error(_: &mut Frame<'_>) -> Result<usize, LuaError> {
    Ok(1)
}

type Open = fn(&mut Frame<'_>);

fn interpreter(limit: usize) -> Lua {
    let mut lua = Lua::new(limit);
    lua.open_libraries();
    let libraries: [(&str, Open); 4] =
        [("cjson", cjson::open), ("cmsgpack", cmsgpack::open), ("struct", structs::open), ("bit", bit::open)];
    for (name, open) in libraries {
        let mut frame = lua.frame();
        frame.push_globals();
        open(&mut frame);
        assert_eq!(frame.top(), 2, "{name} leaves its table");
        frame.raw_set_field(1, name);
        frame.set_top(0);
    }
    lua
}

/// What a script returns, or the message of the error that it ends with; bytes that cannot be read as `<ff>`.
fn answer(lua: &mut Lua, script: &str) -> String {
    lua.frame().set_top(0);
    lua.frame().push_native(keep_error);
    if lua.load(script.as_bytes(), c"@user_script").is_ok() {
        let _ = lua.call(None, 0, Some(1));
    }
    let frame = lua.frame();
    let bytes = frame.to_bytes(-1).unwrap_or(b"neither string nor number");
    bytes.iter().fold(String::new(), |text, byte| match byte {
        b' '..=b'~' if !b"<>".contains(byte) => text + &char::from(*byte).to_string(),
        _ => format!("{text}<{byte:02x}>"),
    })
}

/// Makes text of values.
const SHOW: &str = r#"local function show(v)
    if type(v) == 'string' then return '"' .. v .. '"' end
    if type(v) == 'number' then return string.format('%.17g', v) end
    if v == cjson.null then return 'null' end
    if type(v) ~= 'table' then return tostring(v) end
    local fields = {}
    for key, value in pairs(v) do fields[#fields + 1] = show(key) .. '=' .. show(value) end
    table.sort(fields)
    return '{' .. table.concat(fields, ' ') .. '}'
end
local function all(...)
    local values = {...}
    for i = 1, select('#', ...) do values[i] = show(values[i]) end
    return table.concat(values, ' ')
end
"#;

const CJSON: &[(&str, &str)] = &[
    (
        "return cjson._NAME, cjson._VERSION, cjson.null, type(cjson.null), cjson.safe",
        r#"true "cjson" "2.1.0" null "userdata" nil"#,
    ),
    ("return cjson.encode({})", r#"true "{}""#),
    (
        r#"return cjson.encode({1, 2.5, "x", true, false, cjson.null, {a = {}}})"#,
        r#"true "[1,2.5,"x",true,false,null,{"a":{}}]""#,
    ),
    (
        r#"return cjson.encode("a/b\\\"\8\9\10\12\13\0\31\127\128\255")"#,
        r#"true ""a\/b\\\"\b\t\n\f\r\u0000\u001f\u007f<80><ff>"""#,
    ),
    (
        "return cjson.encode({0, 0 * -1, 1e14, 99999999999999, 1e15, 0.1, 1e-5, 123456.5, 2 ^ 53, 5e-324, -1e300})",
        r#"true "[0,0,1e+14,99999999999999,1e+15,0.1,1e-05,123456.5,9.007199254741e+15,4.9406564584125e-324,-1e+300]""#,
    ),
    ("return cjson.encode({1, nil, 3})", r#"true "[1,null,3]""#),
    ("return cjson.encode({[3] = 1})", r#"true "[null,null,1]""#),
    ("return cjson.encode({[1.5] = 1})", r#"true "{"1.5":1}""#),
    ("return cjson.encode({[0] = 1})", r#"true "{"0":1}""#),
    ("return cjson.encode({1, x = 1})", r#"true "{"1":1,"x":1}""#),
    ("return cjson.encode({[11] = 1})", r#"false "user_script:16: Cannot serialise table: excessively sparse array""#),
    ("return cjson.encode({1, 2, 3, 4, 5, 6, [13] = 1})", r#"true "[1,2,3,4,5,6,null,null,null,null,null,null,1]""#),
    ("return cjson.encode({[2147483648] = 1})", r#"true "{"2147483648":1}""#),
    ("return cjson.encode()", r#"false "user_script:16: bad argument #1 to 'encode' (expected 1 argument)""#),
    ("return cjson.encode(1, 2)", r#"false "user_script:16: bad argument #1 to 'encode' (expected 1 argument)""#),
    ("return cjson:encode(1)", r#"false "user_script:16: calling 'encode' on bad self (expected 1 argument)""#),
    ("return cjson.encode(tostring)", r#"false "user_script:16: Cannot serialise function: type not supported""#),
    (
        "return cjson.encode({[true] = 1})",
        r#"false "user_script:16: Cannot serialise boolean: table key must be a number or string""#,
    ),
    ("return cjson.encode(0 / 0)", r#"false "user_script:16: Cannot serialise number: must not be NaN or Inf""#),
    ("return cjson.encode(-1 / 0)", r#"false "user_script:16: Cannot serialise number: must not be NaN or Inf""#),
    (
        "local t = {} t[1] = t return cjson.encode(t)",
        r#"false "user_script:16: Cannot serialise, excessive nesting (1001)""#,
    ),
    (
        r#"return cjson.decode(' { "a" : [ 1 , -2.5e1 , "x" ] , "b" : null , "a" : true } ')"#,
        r#"true {"a"=true "b"=null}"#,
    ),
    (
        r#"return cjson.decode([["\u0041\u00e9\u20ac\ud83d\ude00\/\b\f\n\r\t\"\\"]])"#,
        r#"true "A<c3><a9><e2><82><ac><f0><9f><98><80>/<08><0c><0a><0d><09>"\""#,
    ),
    (
        r#"return cjson.decode("[0x10, +1, -.5, 01, inf, -Infinity, 1e400]")"#,
        "true {1=16 2=1 3=-0.5 4=1 5=inf 6=-inf 7=inf}",
    ),
    (r#"return cjson.decode("[]"), cjson.decode("{}"), cjson.decode("12\0x"), cjson.decode("1")"#, "true {} {} 12 1"),
    (r#"return cjson.decode("")"#, r#"false "user_script:16: Expected value but found T_END at character 1""#),
    (r#"return cjson.decode("[")"#, r#"false "user_script:16: Expected value but found T_END at character 2""#),
    (
        r#"return cjson.decode("[1 2]")"#,
        r#"false "user_script:16: Expected comma or array end but found T_NUMBER at character 4""#,
    ),
    (
        r#"return cjson.decode("{1:2}")"#,
        r#"false "user_script:16: Expected object key string but found T_NUMBER at character 2""#,
    ),
    (
        r#"return cjson.decode('{"a" 1}')"#,
        r#"false "user_script:16: Expected colon but found T_NUMBER at character 6""#,
    ),
    (
        r#"return cjson.decode('{"a":1 "b"}')"#,
        r#"false "user_script:16: Expected comma or object end but found T_STRING at character 8""#,
    ),
    (r#"return cjson.decode("[1,]")"#, r#"false "user_script:16: Expected value but found T_ARR_END at character 4""#),
    (
        r#"return cjson.decode("{} x")"#,
        r#"false "user_script:16: Expected the end but found invalid token at character 4""#,
    ),
    (
        r#"return cjson.decode("{} {}")"#,
        r#"false "user_script:16: Expected the end but found T_OBJ_BEGIN at character 4""#,
    ),
    (
        r#"return cjson.decode("nul")"#,
        r#"false "user_script:16: Expected value but found invalid token at character 1""#,
    ),
    (
        r#"return cjson.decode("-")"#,
        r#"false "user_script:16: Expected value but found invalid number at character 1""#,
    ),
    (
        r#"return cjson.decode([["\x"]])"#,
        r#"false "user_script:16: Expected value but found invalid escape code at character 2""#,
    ),
    (
        r#"return cjson.decode([["\ud83d"]])"#,
        r#"false "user_script:16: Expected value but found invalid unicode escape code at character 2""#,
    ),
    (
        r#"return cjson.decode([["\u12"]])"#,
        r#"false "user_script:16: Expected value but found invalid unicode escape code at character 2""#,
    ),
    (
        r#"return cjson.decode('"abc')"#,
        r#"false "user_script:16: Expected value but found unexpected end of string at character 5""#,
    ),
    (r#"return cjson.decode("\0a")"#, r#"false "user_script:16: JSON parser does not support UTF-16 or UTF-32""#),
    (r#"return cjson.decode("a\0")"#, r#"false "user_script:16: JSON parser does not support UTF-16 or UTF-32""#),
    ("return cjson.decode({})", r#"false "user_script:16: bad argument #1 to 'decode' (string expected, got table)""#),
    ("return cjson.decode()", r#"false "user_script:16: bad argument #1 to 'decode' (expected 1 argument)""#),
    (
        r#"return cjson.decode(string.rep("[", 1001))"#,
        r#"false "user_script:16: Found too many nested data structures (1001) at character 1001""#,
    ),
    (
        r#"local c = cjson.new() c.decode_max_depth(9000) return c.decode(string.rep("[", 9000))"#,
        r#"false "user_script:16: Found too many nested data structures (7999) at character 7999""#,
    ),
    (
        r#"local c = cjson.new() c.decode_max_depth(9000) return #c.encode({c.decode(string.rep("[", 900) .. string.rep("]", 900))})"#,
        "true 1802",
    ),
    (
        "local c = cjson.new() c.encode_max_depth(9000) local t = {} for i = 1, 9000 do t = {t} end return c.encode(t)",
        r#"false "user_script:16: Cannot serialise, excessive nesting (7998)""#,
    ),
    (
        "local c = cjson.new() return c.encode_max_depth(2), cjson.encode_max_depth(), pcall(c.encode, {{{}}})",
        r#"true 2 1000 false "Cannot serialise, excessive nesting (3)""#,
    ),
    (
        r#"local c = cjson.new() return c.encode_invalid_numbers(true), c.encode({0 / 0, 1 / 0, -1 / 0}), c.encode_invalid_numbers("null"), c.encode({0 / 0})"#,
        r#"true true "[nan,inf,-inf]" "null" "[null]""#,
    ),
    (
        r#"local c = cjson.new() return c.decode_invalid_numbers("off"), c.decode("-1"), pcall(c.decode, "01")"#,
        r#"true false -1 false "Expected value but found invalid number at character 1""#,
    ),
    (
        r#"local c = cjson.new() c.decode_invalid_numbers(false) return c.decode("[inf]")"#,
        r#"false "user_script:16: Expected value but found invalid token at character 2""#,
    ),
    (
        "local c = cjson.new() return c.encode_number_precision(3), c.encode({1, 12345, 0.5, 999.5, 99.95, 1e20})",
        r#"true 3 "[1,1.23e+04,0.5,1e+03,100,1e+20]""#,
    ),
    (
        r#"local c = cjson.new() return c.encode_keep_buffer(), c.encode_keep_buffer("off"), c.encode({c})"#,
        r#"false "user_script:16: Cannot serialise function: type not supported""#,
    ),
    ("local c = cjson.new() return c.encode_sparse_array(true), c.encode({[11] = 1})", r#"true true "{"11":1}""#),
    ("local c = cjson.new() c.encode_sparse_array(false, 0) return #c.encode({[5000] = 1})", "true 24998"),
    ("local c = cjson.new() return c.encode_sparse_array(nil, 3, 4), c.encode_sparse_array()", "true false false 3 4"),
    (
        "return cjson.encode_sparse_array(nil, -1)",
        r#"false "user_script:16: bad argument #1 to 'encode_sparse_array' (expected integer between 0 and 2147483647)""#,
    ),
    (
        "return cjson.encode_max_depth(0)",
        r#"false "user_script:16: bad argument #1 to 'encode_max_depth' (expected integer between 1 and 2147483647)""#,
    ),
    (
        "return cjson.encode_max_depth(1, 2)",
        r#"false "user_script:16: bad argument #2 to 'encode_max_depth' (found too many arguments)""#,
    ),
    (
        "return cjson.encode_max_depth({})",
        r#"false "user_script:16: bad argument #1 to 'encode_max_depth' (number expected, got table)""#,
    ),
    (
        "return cjson.encode_number_precision(15)",
        r#"false "user_script:16: bad argument #1 to 'encode_number_precision' (expected integer between 1 and 14)""#,
    ),
    (
        r#"return cjson.encode_invalid_numbers("x\0y")"#,
        r#"false "user_script:16: bad argument #1 to 'encode_invalid_numbers' (invalid option 'x')""#,
    ),
    (
        "return cjson.decode_invalid_numbers(1)",
        r#"false "user_script:16: bad argument #1 to 'decode_invalid_numbers' (invalid option '1')""#,
    ),
];

const CMSGPACK: &[(&str, &str)] = &[
    ("return cmsgpack._NAME, cmsgpack._VERSION", r#"true "cmsgpack" "lua-cmsgpack 0.4.0""#),
    (r#"return cmsgpack.pack(nil, true, false, tostring, "")"#, r#"true "<c0><c3><c2><c0><a0>""#),
    (
        "return cmsgpack.pack(0, 127, 128, 255, 256, 65535, 65536, 2 ^ 32 - 1, 2 ^ 32, 2 ^ 53)",
        r#"true "<00><7f><cc><80><cc><ff><cd><01><00><cd><ff><ff><ce><00><01><00><00><ce><ff><ff><ff><ff><cf><00><00><00><01><00><00><00><00><cf><00> <00><00><00><00><00><00>""#,
    ),
    (
        "return cmsgpack.pack(-1, -32, -33, -128, -129, -32768, -32769, -2 ^ 31, -2 ^ 31 - 1, -2 ^ 63)",
        r#"true "<ff><e0><d0><df><d0><80><d1><ff><7f><d1><80><00><d2><ff><ff><7f><ff><d2><80><00><00><00><d3><ff><ff><ff><ff><7f><ff><ff><ff><d3><80><00><00><00><00><00><00><00>""#,
    ),
    (
        "return cmsgpack.pack(1.5, 0.1, 2 ^ 63, 1 / 0, 0 * -1)",
        r#"true "<ca>?<c0><00><00><cb>?<b9><99><99><99><99><99><9a><ca>_<00><00><00><ca><7f><80><00><00><00>""#,
    ),
    (
        r#"return #cmsgpack.pack(string.rep("x", 31)), #cmsgpack.pack(string.rep("x", 32)), #cmsgpack.pack(string.rep("x", 256)), #cmsgpack.pack(string.rep("x", 65536))"#,
        "true 32 34 259 65541",
    ),
    (
        "return cmsgpack.pack({}), cmsgpack.pack({1, {2}}), cmsgpack.pack({a = 1}), cmsgpack.pack({[2] = 1}), cmsgpack.pack({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})",
        r#"true "<90>" "<92><01><91><02>" "<81><a1>a<01>" "<81><02><01>" "<dc><00><10><01><02><03><04><05><06><07><08><09><0a><0b><0c><0d><0e><0f><10>""#,
    ),
    (
        "local t = {} t[1] = t return cmsgpack.pack(t)",
        r#"true "<91><91><91><91><91><91><91><91><91><91><91><91><91><91><91><91><c0>""#,
    ),
    ("return cmsgpack.pack()", r#"false "user_script:16: bad argument #0 to 'pack' (MessagePack pack needs input.)""#),
    (
        "return cmsgpack:pack()",
        r#"true "<88><ac>_DESCRIPTION<d9>$MessagePack C implementation for Lua<a4>pack<c0><a5>_NAME<a8>cmsgpack<a6>unpack<c0><aa>_COPYRIGHT<d9>(Copyright (C) 2012, Salvatore Sanfilippo<a8>_VERSION<b2>lua-cmsgpack 0.4.0<aa>unpack_one<c0><ac>unpack_limit<c0>""#,
    ),
    (
        r#"return cmsgpack.unpack(cmsgpack.pack(1, "a", {1, 2, {x = {}}}, nil, 2.5))"#,
        r#"true 1 "a" {1=1 2=2 3={"x"={}}} nil 2.5"#,
    ),
    (
        r#"return cmsgpack.unpack("\204\200\205\1\0\206\255\255\255\255\207\255\255\255\255\255\255\255\255\208\200\209\255\0\210\128\0\0\0\211\255\255\255\255\255\255\255\0\224")"#,
        "true 200 256 4294967295 -1 -56 -256 -2147483648 -256 -32",
    ),
    (
        r#"return cmsgpack.unpack("\217\1a\218\0\1b\219\0\0\0\1c\220\0\1\1\221\0\0\0\1\2\222\0\1\1\2\223\0\0\0\1\3\4\202\63\192\0\0")"#,
        r#"true "a" "b" "c" {1=1} {1=2} {1=2} {3=4} 1.5"#,
    ),
    (r#"return cmsgpack.unpack("")"#, "true"),
    (r#"return cmsgpack.unpack("\193")"#, r#"false "user_script:16: Bad data format in input.""#),
    (r#"return cmsgpack.unpack("\205\1")"#, r#"false "user_script:16: Missing bytes in input.""#),
    (r#"return cmsgpack.unpack("\147\1")"#, r#"false "user_script:16: Missing bytes in input.""#),
    (r#"return cmsgpack.unpack("\219\255\255\255\255a")"#, r#"false "user_script:16: Missing bytes in input.""#),
    (r#"return cmsgpack.unpack("\129\192\1")"#, r#"false "table index is nil""#),
    (r#"return cmsgpack.unpack("\129\203\255\248\0\0\0\0\0\0\1")"#, r#"false "table index is NaN""#),
    (
        "return cmsgpack.unpack({})",
        r#"false "user_script:16: bad argument #1 to 'unpack' (string expected, got table)""#,
    ),
    (
        "return cmsgpack.unpack()",
        r#"false "user_script:16: bad argument #1 to 'unpack' (string expected, got no value)""#,
    ),
    (r#"return cmsgpack.unpack_one("\1\2\3")"#, "true 1 1"),
    (r#"return cmsgpack.unpack_one("\1\2\3", 2)"#, "true -1 3"),
    (r#"return cmsgpack.unpack_one("\1\2\3", 3)"#, "true -1"),
    (
        r#"return cmsgpack.unpack_one("\1\2\3", 4)"#,
        r#"false "user_script:16: Start offset 4 greater than input length 3.""#,
    ),
    (
        r#"return cmsgpack.unpack_one("\1\2\3", -1)"#,
        r#"false "user_script:16: Invalid request to unpack with offset of -1 and limit of 3.""#,
    ),
    (r#"return cmsgpack.unpack_limit("\1\2\3", 2)"#, "true 2 1 2"),
    (r#"return cmsgpack.unpack_limit("\1\2\3", 2, 1)"#, "true -1 2 3"),
    (r#"return cmsgpack.unpack_limit("\1\2\3", 0)"#, "true 1 2 3"),
    (r#"return cmsgpack.unpack_limit("\1\2\3", 0, 1)"#, "true 1"),
    (
        r#"return cmsgpack.unpack_limit("\1\2\3")"#,
        r#"false "user_script:16: bad argument #2 to 'unpack_limit' (number expected, got no value)""#,
    ),
    (r#"return select('#', cmsgpack.unpack(string.rep("\1", 7999)))"#, "true 7999"),
    (
        r#"return cmsgpack.unpack(string.rep("\1", 8000))"#,
        r#"false "user_script:16: stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)""#,
    ),
    (
        r#"return cmsgpack.unpack(string.rep("\145", 8000))"#,
        r#"false "user_script:16: stack overflow (in function mp_decode_to_lua_array)""#,
    ),
    (
        r#"return cmsgpack.unpack(string.rep("\129", 8000))"#,
        r#"false "user_script:16: stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)""#,
    ),
];

const STRUCT: &[(&str, &str)] = &[
    (
        r#"return struct.pack("bBhHiIlLT", -1, 255, -2, 65535, -3, 2 ^ 32 - 1, -4, 2 ^ 53, 5)"#,
        r#"true "<ff><ff><fe><ff><ff><ff><fd><ff><ff><ff><ff><ff><ff><ff><fc><ff><ff><ff><ff><ff><ff><ff><00><00><00><00><00><00> <00><05><00><00><00><00><00><00><00>""#,
    ),
    (
        r#"return struct.pack(">bhil", 1, 2, 3, 4), struct.pack("<i3", 258), struct.pack(">I16", 258)"#,
        r#"true "<01><00><02><00><00><00><03><00><00><00><00><00><00><00><04>" "<02><01><00>" "<00><00><00><00><00><00><00><00><00><00><00><00><00><00><01><02>""#,
    ),
    (
        r#"return struct.pack("!bi", 1, 2), struct.pack("!4bd", 1, 2), struct.pack("b!2 i", 1, 2), struct.pack("xb", 1)"#,
        r#"true "<01><00><00><00><02><00><00><00>" "<01><00><00><00><00><00><00><00><00><00><00>@" "<01><00><02><00><00><00>" "<00><01>""#,
    ),
    (
        r#"return struct.pack(">fd", 1.5, -2.5), struct.pack("sc0c2", "ab", "cd", "efg"), struct.pack("i2", "12")"#,
        r#"true "?<c0><00><00><c0><04><00><00><00><00><00><00>" "ab<00>cdef" "<0c><00>""#,
    ),
    (
        r#"return struct.pack("bB", 300, -1), struct.pack("L", -1), struct.pack("I", 2 ^ 40), struct.pack("l", 0 / 0)"#,
        r#"true ",<ff>" "<ff><ff><ff><ff><ff><ff><ff><ff>" "<00><00><00><00>" "<00><00><00><00><00><00><00><80>""#,
    ),
    (r#"return struct.pack("i0b\0zzz", 1, 2)"#, r#"true "<02>""#),
    (r#"return struct.unpack(">bBhHi3", "\255\255\255\254\255\253\0\1\2")"#, "true -1 255 -2 65533 258 10"),
    (r#"return struct.unpack("<i16", string.rep("\255", 16))"#, "true -1 17"),
    (r#"return struct.unpack("sc2bc0x", "ab\0cd\3efgh")"#, r#"true "ab" "cd" "efg" 11"#),
    (r#"return struct.unpack(">fd", "\63\192\0\0\192\4\0\0\0\0\0\0")"#, "true 1.5 -2.5 13"),
    (r#"return struct.unpack("b", "\1\2\3", 2)"#, "true 2 3"),
    (r#"return struct.unpack("!bi", "\1\0\0\0\2\0\0\0")"#, "true 1 2 9"),
    (
        r#"return struct.unpack("i", "abc")"#,
        r#"false "user_script:16: bad argument #2 to 'unpack' (data string too short)""#,
    ),
    (
        r#"return struct.unpack("b", "a", 0)"#,
        r#"false "user_script:16: bad argument #3 to 'unpack' (offset must be 1 or greater)""#,
    ),
    (
        r#"return struct.unpack("b", "a", -1)"#,
        r#"false "user_script:16: bad argument #2 to 'unpack' (data string too short)""#,
    ),
    (r#"return struct.unpack("c0", "5")"#, r#"false "user_script:16: format 'c0' needs a previous size""#),
    (
        r#"return struct.unpack("bc0", "\5abc")"#,
        r#"false "user_script:16: bad argument #2 to 'unpack' (data string too short)""#,
    ),
    (r#"return struct.unpack("s", "abc")"#, r#"false "user_script:16: unfinished string in data""#),
    (
        r#"return struct.unpack("b")"#,
        r#"false "user_script:16: bad argument #2 to 'unpack' (string expected, got no value)""#,
    ),
    (
        r#"return struct.unpack(string.rep("b", 8000), string.rep("x", 8000))"#,
        r#"false "user_script:16: stack overflow (too many results)""#,
    ),
    (r#"return struct.size("bhilTfd"), struct.size("!bd"), struct.size("c10 i5<>z")"#, "true 35 16 15"),
    (
        r#"return struct.size("s")"#,
        r#"false "user_script:16: bad argument #1 to 'size' (option 's' has no fixed size)""#,
    ),
    (
        r#"return struct.size("c0")"#,
        r#"false "user_script:16: bad argument #1 to 'size' (option 'c0' has no fixed size)""#,
    ),
    (r#"return struct.size("%")"#, r#"false "user_script:16: bad argument #1 to 'size' (invalid format option '%')""#),
    (
        r#"return struct.pack("z", 1)"#,
        r#"false "user_script:16: bad argument #1 to 'pack' (invalid format option 'z')""#,
    ),
    (r#"return struct.pack("i33", 1)"#, r#"false "user_script:16: integral size 33 is larger than limit of 32""#),
    (r#"return struct.pack("i99999999999", 1)"#, r#"false "user_script:16: integral size overflow""#),
    (r#"return struct.pack("!3", 1)"#, r#"false "user_script:16: alignment 3 is not a power of 2""#),
    (r#"return struct.pack("c5", "abc")"#, r#"false "user_script:16: bad argument #3 to 'pack' (string too short)""#),
    (r#"return struct.pack("i")"#, r#"false "user_script:16: bad argument #2 to 'pack' (number expected, got nil)""#),
    (
        r#"return struct.pack("s", {})"#,
        r#"false "user_script:16: bad argument #2 to 'pack' (string expected, got table)""#,
    ),
    ("return struct.pack()", r#"false "user_script:16: bad argument #1 to 'pack' (string expected, got no value)""#),
    ("return struct:size()", r#"false "user_script:16: calling 'size' on bad self (string expected, got table)""#),
];

const BIT: &[(&str, &str)] = &[
    (
        r#"return bit.tobit(2 ^ 31), bit.tobit(2 ^ 32), bit.tobit(-1), bit.tobit(1.5), bit.tobit(2.5), bit.tobit(2 ^ 60), bit.tobit(0 / 0), bit.tobit("0xff")"#,
        "true -2147483648 0 -1 2 2 0 0 255",
    ),
    ("return bit.bnot(0), bit.band(6, 3), bit.bor(1, 2, 4), bit.bxor(5, 1, 255), bit.band(7)", "true -1 2 7 251 7"),
    (
        "return bit.lshift(1, 31), bit.lshift(1, 32), bit.rshift(-1, 28), bit.arshift(-256, 4), bit.rol(0x12345678, 8), bit.ror(0x12345678, 8), bit.rol(5, 0)",
        "true -2147483648 1 15 -16 878082066 2014458966 5",
    ),
    (
        "return bit.bswap(0x12345678), bit.tohex(0x12345678), bit.tohex(255, 2), bit.tohex(255, -4), bit.tohex(-1, 20), bit.tohex(1, 0), bit.tohex(255, -2147483648)",
        r#"true 2018915346 "12345678" "ff" "00FF" "ffffffff" "" "000000FF""#,
    ),
    ("return bit.tobit()", r#"false "user_script:16: bad argument #1 to 'tobit' (number expected, got no value)""#),
    ("return bit.tobit({})", r#"false "user_script:16: bad argument #1 to 'tobit' (number expected, got table)""#),
    (
        r#"return bit.band(1, "x", {})"#,
        r#"false "user_script:16: bad argument #3 to 'band' (number expected, got table)""#,
    ),
    ("return bit.tohex(1, nil)", r#"false "user_script:16: bad argument #2 to 'tohex' (number expected, got nil)""#),
    ("return bit:bnot()", r#"false "user_script:16: calling 'bnot' on bad self (number expected, got table)""#),
    ("return bit.lshift(1)", r#"false "user_script:16: bad argument #2 to 'lshift' (number expected, got no value)""#),
];

fn check(rows: &[(&str, &str)]) {
    for (script, expected) in rows {
        let script = format!("{SHOW}return all(pcall(function() {script} end))");
        assert_eq!(answer(&mut interpreter(1 << 30), &script), *expected, "{script}");
    }
}

#[test]
fn cjson_answers_as_redis_does() {
    check(CJSON);
}

#[test]
fn cmsgpack_answers_as_redis_does() {
    check(CMSGPACK);
}

#[test]
fn struct_answers_as_redis_does() {
    check(STRUCT);
}

#[test]
fn bit_answers_as_redis_does() {
    check(BIT);
}

#[test]
fn natives_take_more_arguments_than_lua_lets_them_add_to() {
    for (call, expected) in [
        ("bit.bor(1, 2, 4, unpack(t))", "7"),
        ("cjson.encode(1, 2, 3, unpack(t))", "user_script:1: bad argument #1 to 'encode' (expected 1 argument)"),
        (
            "cmsgpack.pack(1, 2, unpack(t))",
            "user_script:1: bad argument #0 to 'pack' (Too many arguments for MessagePack pack.)",
        ),
        ("struct.unpack('b', 'a', 1, unpack(t))", "user_script:1: stack overflow (too many results)"),
        (
            r"cmsgpack.unpack('\129', 1, unpack(t))",
            "user_script:1: stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        ),
    ] {
        let script = format!("local t = {{}} for i = 1, 7998 do t[i] = 1 end local r = {call} return r");
        assert_eq!(answer(&mut interpreter(1 << 24), &script), expected);
    }
}

#[test]
fn what_a_library_makes_counts_as_memory_of_the_script() {
    for call in [
        "cjson.encode(t)",
        "cmsgpack.pack(t)",
        "struct.pack(string.rep('s', 1000), unpack(t))",
        "cjson.decode('[' .. string.rep('[],', 1000000) .. '1]')",
        r"cmsgpack.unpack('\221\15\255\255\255' .. string.rep('\144', 1000000))",
        "(function() local c = cjson.new() c.encode_sparse_array(true, 0) return c.encode({[2147483647] = 1}) end)()",
    ] {
        let script = format!(
            "local s = string.rep('x', 100000) local t = {{}} for i = 1, 1000 do t[i] = s end local r = {call} return r"
        );
        assert_eq!(answer(&mut interpreter(16 << 20), &script), "not enough memory", "{call}");
    }
}
