"""Lua scripts of the operator. Each is one step of the server: no other client sees half of it."""

from __future__ import annotations

_CHANGES = """
local kept = 90 * 86400  -- seconds for which the last step is remembered of an operation that was killed: its undo asks for it
local stream, group, mode, operation = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local dry = mode == 'try'
local step, user, action = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local boxes = {held = KEYS[2], rejected = KEYS[3], trash = KEYS[4]}
local audit, marker, later, paused = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local notes_of_ours = {'~id', '~tries', '~why', '~from', '~by', '~op', '~group'}
local own = {}
for _, name in ipairs(notes_of_ours) do own[name] = true end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local groups, lasts = 0, {}

local function later_than(a, b)  -- compares ids, whose second number may be larger than a Lua number can tell
  local am, as = string.match(a, '^(%d+)-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)-(%d+)$')
  if #am ~= #bm then return #am > #bm end
  if am ~= bm then return am > bm end
  if #as ~= #bs then return #as > #bs end
  return as > bs
end

local function entry_of(key, id)
  local found = redis.call('XRANGE', key, id, id)[1]
  return found and found[2]
end

local function divided(fields)  -- the producer's fields, and the notes of spooltop
  local plain, notes = {}, {}
  for at = 1, #fields, 2 do
    if own[fields[at]] then notes[fields[at]] = fields[at + 1]
    else plain[#plain + 1] = fields[at]; plain[#plain + 1] = fields[at + 1] end
  end
  return plain, notes
end

local function entry_id(notes)  -- that of the entry in the stream, 0-0 where none is told
  local id = notes['~id']
  return id and string.match(id, '^%d+-%d+$') and id or '0-0'
end

local function with(fields, notes)
  for _, name in ipairs(notes_of_ours) do
    if notes[name] then fields[#fields + 1] = name; fields[#fields + 1] = notes[name] end
  end
  return fields
end

local function claim_of(one)
  local found = redis.call('XPENDING', stream, group, one.id, one.id, 1)[1]
  if not found then return nil, 'done or gone since' end
  local moved = one.delivered >= 0 and one.verb ~= 'give' and math.abs(now - found[3] - one.delivered) > 50
  if found[2] ~= one.consumer or found[4] ~= one.tries or moved then
    if found[2] == '~spooltop' then return nil, 'handed back since' end
    return nil, 'claimed since by ' .. found[2]
  end
  return found
end

local function claimed_entry(one, advice)
  local claim, why = claim_of(one)
  if not claim then return nil, why end
  local fields = entry_of(stream, one.id)
  if not fields then return nil, 'its entry was deleted: only the claim is left' .. (advice or '') end
  return fields
end

local function write(...)  -- sends a command that changes something, unless it is only asked what would be done
  return dry and '' or redis.call(...)
end

local function end_claim(one, deletes)
  write('XACK', stream, group, one.id)
  if deletes and groups == 1 then write('XDEL', stream, one.id) end
  write('ZREM', later, one.id)
end

local members
local function is_member(consumer)  -- of one that is not, nobody could ever tell that it is dead
  if not members then
    members = {}
    for _, one in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
      for at = 1, #one, 2 do if one[at] == 'name' then members[one[at + 1]] = true end end
    end
  end
  return members[consumer]
end

local function alone(what)
  if groups == 1 then return nil end
  return (groups - 1) .. ' other group' .. (groups == 2 and ' reads' or 's read') .. ' this stream too' .. what
end

local function undelivered(one)
  local why = alone(': an undelivered message can be taken from all groups only')
  if why then return nil, why end
  local fields = entry_of(stream, one.id)
  if not fields then return nil, 'gone since' end
  if not later_than(one.id, lasts[group]) then return nil, 'delivered since' end
  return fields
end

local function aside_entry(one)
  local fields = entry_of(boxes[one.box], one.id)
  if not fields then return nil, 'gone since' end
  return divided(fields)
end

local function add(key, plain, notes)
  return write('XADD', key, '*', unpack(with(plain, notes)))
end

local function add_aside(one, fields, from)
  local why = one.why ~= '' and one.why or nil
  return add(boxes[one.to], divided(fields), {['~id'] = one.id, ['~tries'] = one.noted, ['~why'] = why, ['~from'] = from,
    ['~by'] = user, ['~op'] = operation, ['~group'] = group})
end

local verbs = {}  -- each makes a change, and returns the new id and words about it, where there are some; else nil, and why not

function verbs.hand(one)
  local fields, why = claimed_entry(one)
  if not fields then return nil, why end
  write('XCLAIM', stream, group, '~spooltop', 0, one.id, 'IDLE', 86400000, 'RETRYCOUNT', one.tries, 'JUSTID')
  write('ZREM', later, one.id)
  return one.id
end

function verbs.give(one)
  local fields, why = claimed_entry(one)
  if not fields then return nil, why end
  if not is_member(one.to) then return nil, 'its consumer has left the group: it stays handed back' end
  write('XCLAIM', stream, group, one.to, 0, one.id, 'TIME', one.delivered, 'RETRYCOUNT', one.tries, 'JUSTID')
  return one.id
end

function verbs.copy(one)
  local fields, why = claimed_entry(one)
  why = why or one.data ~= 'force' and alone(', and would get the copy')
  if why then return nil, why end
  local new = add(stream, divided(fields), {['~id'] = one.id, ['~tries'] = one.tries, ['~op'] = operation})
  end_claim(one, true)
  return new
end

function verbs.aside(one)
  local fields, why = claimed_entry(one, '; purge --now removes it')
  if not fields then return nil, why end
  local new = add_aside(one, fields, one.box)
  end_claim(one, one.to == 'trash')
  return new
end

verbs['aside-new'] = function(one)
  local fields, why = undelivered(one)
  if not fields then return nil, why end
  local new = add_aside(one, fields, 'new')
  write('XDEL', stream, one.id)
  return new
end

function verbs.back(one)
  local plain, notes = aside_entry(one)
  if not plain then return nil, notes end
  local id = entry_id(notes)
  if redis.call('XPENDING', stream, group, id, id, 1)[1] then return nil, 'it is claimed already' end
  local stands = id ~= '0-0' and entry_of(stream, id)
  if stands and later_than(id, lasts[group]) then return nil, 'its entry is delivered again anyway' end
  if stands and one.to ~= 'copy' then
    write('XCLAIM', stream, group, '~spooltop', 0, id, 'IDLE', 86400000, 'RETRYCOUNT', one.tries, 'FORCE', 'JUSTID')
    write('XDEL', boxes[one.box], one.id)
    return id
  end
  local needed = stands and '' or ' that is needed, as its entry is gone'
  local why = one.data ~= 'force' and alone(', and would get the copy' .. needed)
  if why then return nil, why end
  local new = add(stream, plain, {['~id'] = notes['~id'], ['~tries'] = notes['~tries'], ['~op'] = operation})
  write('XDEL', boxes[one.box], one.id)
  if stands and groups == 1 then write('XDEL', stream, id) end
  return new, 'a copy, last in order, as ' .. (stands and 'its consumers only read new entries' or 'its entry is gone')
end

function verbs.move(one)
  local plain, notes = aside_entry(one)
  if not plain then return nil, notes end
  notes['~op'], notes['~from'], notes['~by'] = operation, one.to == 'trash' and one.box or nil, user
  local new = add(boxes[one.to], plain, notes)
  write('XDEL', boxes[one.box], one.id)
  return new
end

function verbs.drop(one)
  local plain, notes = aside_entry(one)
  if not plain then return nil, notes end
  write('XDEL', boxes[one.box], one.id)
  local id = entry_id(notes)  -- an entry that was kept for an undo is of no use any more
  if groups == 1 and not later_than(id, lasts[group]) and not redis.call('XPENDING', stream, group, id, id, 1)[1] then
    write('XDEL', stream, id)
  end
  return ''
end

verbs['drop-claim'] = function(one)
  local claim, why = claim_of(one)
  if not claim then return nil, why end
  end_claim(one, true)
  return ''
end

verbs['drop-new'] = function(one)
  local fields, why = undelivered(one)
  if not fields then return nil, why end
  write('XDEL', stream, one.id)
  return ''
end

function verbs.put(one)
  local source = one.consumer ~= '' and {'source', one.consumer} or {}
  return write('XADD', stream, '*', 'data', one.data, unpack(source))
end

function verbs.pause(one)
  if redis.call('EXISTS', paused) == 1 then return nil, 'it was paused meanwhile' end
  write('SET', paused, one.to)
  return ''
end

function verbs.resume(one)
  local found = redis.call('GET', paused)
  if not found then return nil, 'it was resumed meanwhile' end
  if found ~= one.id then return nil, 'it was resumed and paused again meanwhile' end
  write('DEL', paused)
  return ''
end

function verbs.set(one)
  local found = lasts[one.consumer]
  if not found then return nil, 'the group is gone' end
  if found ~= one.id then return nil, 'its last delivered id is ' .. found .. ' by now' end
  write('XGROUP', 'SETID', stream, one.consumer, one.to)
  return one.to
end
"""

# KEYS stream, held, rejected, trash, audit, marker, later, paused; ARGV group, mode, operation, step, user, action, then 10 words
# of each change: verb id box to consumer tries delivered data, the tries and the reason that are noted. The modes: 'make' makes
# the changes, 'try' says what that would do. Returns three words of each: outcome, reason, new id. The marker keeps them, so that
# the same step sent again changes nothing and answers the same. 'settle' and 'look' return what a step answered that was cut off,
# or {'settled'} where it was not done: after 'settle' it will not be done any more.
ACT = _CHANGES + """
if not dry then
  local known = redis.call('GET', marker)
  if known then
    local at, rest = string.match(known, '^(%d+) (.*)$')
    if tonumber(at) == step and rest ~= '-' then return cjson.decode(rest) end
    if tonumber(at) >= step then return {'settled'} end
  end
end
if mode == 'settle' then redis.call('SET', marker, step .. ' -', 'EX', kept) end
if mode == 'settle' or mode == 'look' then return {'settled'} end
for _, one in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local found = {}
  for at = 1, #one, 2 do found[one[at]] = one[at + 1] end
  groups = groups + 1
  lasts[found['name']] = found['last-delivered-id']
end
if not lasts[group] then return redis.error_reply('NOGROUP the group is gone') end
local deletes = string.sub(ARGV[7] or '', 1, 4) == 'drop' or ARGV[7] == 'resume'
if not dry then  -- first, since a server without memory refuses it: then nothing is changed, but for what frees memory
  local set = redis.pcall('SET', marker, step .. ' -', 'EX', kept)
  if type(set) == 'table' and set.err and not deletes then return redis.error_reply(set.err) end
end
local out, ids, handed = {}, {}, {}
for at = 7, #ARGV, 10 do
  local one = {verb = ARGV[at], id = ARGV[at + 1], box = ARGV[at + 2], to = ARGV[at + 3], consumer = ARGV[at + 4],
    tries = tonumber(ARGV[at + 5]), delivered = tonumber(ARGV[at + 6]), data = ARGV[at + 7], noted = ARGV[at + 8],
    why = ARGV[at + 9]}
  local fine, became, reason = pcall(verbs[one.verb], one)
  local outcome = not fine and 'failed' or became and 'done' or 'skipped'
  if not fine then reason, became = type(became) == 'table' and became.err or tostring(became), '' end
  out[#out + 1] = outcome
  out[#out + 1] = reason or ''
  out[#out + 1] = became or ''
  if outcome == 'done' then ids[#ids + 1] = one.id ~= '' and one.verb ~= 'resume' and one.id or became or '' end
  if outcome == 'done' and one.verb == 'hand' then handed[#handed + 1] = one.id end
end
if not dry then
  redis.pcall('XADD', audit, 'MAXLEN', '~', 100000, '*', 'operation', operation, 'first', step, 'action', action, 'user', user,
    'group', group, 'done', #ids, 'of', (#ARGV - 6) / 10, 'ids', table.concat(ids, ' '), 'handed', table.concat(handed, ' '))
  redis.pcall('SET', marker, step .. ' ' .. cjson.encode(out), 'EX', kept)
end
return out
"""

# KEYS audit, stream; ARGV group. Looks at what was handed over last, as the audit lines tell. Returns 'taken' if a consumer took
# some of it, 'passed' if all of it waits and newer entries were delivered since, else 'unknown'.
HANDED = """
local last
for _, one in ipairs(redis.call('XINFO', 'GROUPS', KEYS[2])) do
  local found = {}
  for at = 1, #one, 2 do found[one[at]] = one[at + 1] end
  if found['name'] == ARGV[1] then last = tonumber(string.match(found['last-delivered-id'], '^%d+')) end
end
local changed = {}  -- by a later operation, such as an undo
for _, line in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 20)) do
  local fields = {}
  for at = 1, #line[2], 2 do fields[line[2][at]] = line[2][at + 1] end
  if fields['group'] == ARGV[1] and fields['handed'] and fields['handed'] ~= '' then
    local waits = 0
    for id in string.gmatch(fields['handed'], '%S+') do
      if not changed[id] then
        local claim = redis.call('XPENDING', KEYS[2], ARGV[1], id, id, 1)[1]
        if not claim or claim[2] ~= '~spooltop' then return 'taken' end
        waits = waits + 1
      end
    end
    if waits > 0 then return last and last > tonumber(string.match(line[1], '^%d+')) and 'passed' or 'unknown' end
  end
  for id in string.gmatch(fields['ids'] or '', '%S+') do changed[id] = true end
end
return 'unknown'
"""
