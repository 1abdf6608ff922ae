"""Lua scripts that only read. They spare the network the contents of entries, and run with EVAL_RO on a replica too.

Each looks at a few hundred entries at most, so that the server is held up for no more than about a millisecond.
"""

from __future__ import annotations

__all__ = ["CLAIMS", "FIRST", "HEADS", "HEADS_BACK", "SKIP", "SKIP_BACK", "SKIP_CLAIMS", "STREAM"]

STREAM = """
-- KEYS stream. XINFO STREAM with the sizes of the first and the last entry in place of their contents, which may be large.
local found = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #found, 2 do
  local name, value = found[at], found[at + 1]
  if (name == 'first-entry' or name == 'last-entry') and value then
    local size = 0
    for _, word in ipairs(value[2]) do size = size + #word end
    found[at + 1] = {value[1], size}
  end
end
return found
"""

_HEAD = """
local function described(entry)  -- the size of its field data, else of all fields together
  local all, data, source = 0, false, false
  local fields = entry[2]
  for at = 1, #fields, 2 do
    all = all + #fields[at] + #fields[at + 1]
    if fields[at] == 'data' then data = #fields[at + 1] end
    if fields[at] == 'source' then source = fields[at + 1] end
  end
  return data or all, source
end
"""

_HEADS = (
    _HEAD
    + """
-- KEYS stream; ARGV from, to, at most so many. Returns id, size and source of each entry.
local out = {}
for _, entry in ipairs(redis.call('%s', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])) do
  local size, source = described(entry)
  out[#out + 1] = {entry[1], size, source}
end
return out
"""
)
HEADS, HEADS_BACK = _HEADS % "XRANGE", _HEADS % "XREVRANGE"

FIRST = """
-- KEYS stream; ARGV from. Returns how many entries there are from there on, 0 or 1, its id, and its size.
local found = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', 1)[1]
local size = 0
for _, word in ipairs(found and found[2] or {}) do size = size + #word end
return {found and 1 or 0, found and found[1] or '', size}
"""

_SKIP = """
-- KEYS stream; ARGV from, to, at most so many. Returns how many entries there are, and the id of the last of them.
local found = redis.call('%s', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
return {#found, #found > 0 and found[#found][1] or ''}
"""
SKIP, SKIP_BACK = _SKIP % "XRANGE", _SKIP % "XREVRANGE"

CLAIMS = (
    _HEAD
    + """
-- KEYS stream; ARGV group, from, at most so many, consumer. Returns id, consumer, milliseconds since the delivery, number of
-- deliveries, size and source of each claim; the size is -1 where the entry was deleted or trimmed.
local out = {}
for _, claim in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], '+', ARGV[3], ARGV[4])) do
  local entry = redis.call('XRANGE', KEYS[1], claim[1], claim[1])[1]
  local size, source = -1, false
  if entry then size, source = described(entry) end
  out[#out + 1] = {claim[1], claim[2], claim[3], claim[4], size, source}
end
return out
"""
)

SKIP_CLAIMS = """
-- KEYS stream; ARGV group, from, at most so many, consumer. Returns how many claims there are, and the id of the last of them.
local found = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], '+', ARGV[3], ARGV[4])
return {#found, #found > 0 and found[#found][1] or ''}
"""
