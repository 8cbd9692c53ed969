-- Changes the globals of scripts that run with unknown values: functions of libraries refuse what they cannot know.
local globals, native = ...
local known, deeply_known = native.known, native.deeply_known
-- Those of this chunk, which stay as they are.
local pairs, ipairs, type, setmetatable, rawget = pairs, ipairs, type, setmetatable, rawget

local function guard(library, name, check)
  local real = library[name]
  library[name] = function(...) return real(check(...)) end
end

-- `decide` returns true and the result if an argument is unknown.
local function decided(library, name, decide)
  local real = library[name]
  library[name] = function(...)
    local is_decided, result = decide(...)
    if is_decided then return result end
    return real(known(...))
  end
end

for name, check in pairs({string = known, math = known, bit = known, struct = known, cjson = deeply_known,
                          cmsgpack = deeply_known}) do
  local library = native.real(globals[name])
  for key, value in pairs(library) do
    if type(value) == 'function' then guard(library, key, check) end
  end
end
local redis = native.real(globals.redis)
for _, name in ipairs({'sha1hex', 'error_reply', 'status_reply', 'log', 'setresp'}) do guard(redis, name, known) end
redis.call, redis.pcall, redis.register_function = native.call, native.pcall, native.register_function
redis.acl_check_cmd = native.give_up
for _, name in ipairs({'REDIS_VERSION', 'REDIS_VERSION_NUM', 'VALKEY_VERSION', 'VALKEY_VERSION_NUM', 'SERVER_NAME'}) do
  redis[name] = nil
end
setmetatable(redis, {__index = native.give_up})

local tables = native.real(globals.table)
for _, name in ipairs({'concat', 'sort', 'maxn', 'foreach', 'foreachi', 'getn', 'remove', 'insert'}) do
  guard(tables, name, (name == 'insert' or name == 'remove') and native.known_table or deeply_known)
end
for _, name in ipairs({'next', 'pairs', 'ipairs', 'setmetatable', 'unpack', 'getmetatable', 'error'}) do
  guard(globals, name, native.known_table)
end
for _, name in ipairs({'rawget', 'rawset', 'rawequal'}) do guard(globals, name, known) end
for _, name in ipairs({'loadstring', 'load', 'collectgarbage'}) do globals[name] = native.give_up end
decided(globals, 'tonumber', native.tonumber)
decided(globals, 'tostring', native.tostring)
decided(globals, 'type', native.type)
local strings, numbers = native.real(globals.string), native.real(globals.math)
for _, name in ipairs({'sub', 'lower', 'upper', 'rep', 'reverse', 'format'}) do decided(strings, name, native.some_text) end
decided(strings, 'len', native.some_length)
for _, name in ipairs({'min', 'max', 'abs', 'fmod', 'mod'}) do decided(numbers, name, native.some_number) end
for _, name in ipairs({'floor', 'ceil'}) do decided(numbers, name, native.some_whole_number) end
numbers.random, numbers.randomseed = native.give_up, native.give_up
if rawget(globals, 'os') then native.real(globals.os).clock = native.give_up end

for name, operator in pairs(native.operators) do globals[name] = operator end
local unknown = native.metatable
unknown.__index = function(value, key)
  native.is_text(value)
  return strings[key]
end
unknown.__newindex, unknown.__call, unknown.__metatable = native.give_up, native.give_up, false
return unknown
