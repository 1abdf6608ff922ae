"""Lua scripts of the queue on a stream. Each does one step of the protocol as a whole: no other client sees half of it.

Two consumers of the group are no programs. ``~spooltop`` holds what was handed back and may be claimed at once; ``~later`` holds
what waits for its delay, whose end is in the sorted set ``later``. Both keep the number of deliveries.

A claim is (consumer, number of deliveries): whoever claimed the message in between has raised the number, so that a step with an
old claim changes nothing. What newer servers do in one command is named beside each script; they are not used, since no test here
runs on such a server.
"""

from __future__ import annotations

_HELD = """
local function held(stream, group, id, consumer, deliveries)
  local entry = redis.call('XPENDING', stream, group, id, id, 1)[1]
  return entry and entry[2] == consumer and entry[4] == tonumber(deliveries)
end
local function hand_back(stream, group, id, deliveries)  -- idle for a day: other consumers' XAUTOCLAIM takes it at once
  redis.call('XCLAIM', stream, group, '~spooltop', 0, id, 'IDLE', 86400000, 'RETRYCOUNT', deliveries, 'JUSTID')
end
local function finish(stream, group, id)
  redis.call('XACK', stream, group, id)
  if #redis.call('XINFO', 'GROUPS', stream) == 1 then redis.call('XDEL', stream, id) end
end
local function set_aside(stream, group, rejected, id, deliveries, reason, who)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    local fields = entry[2]
    for _, word in ipairs({'~id', id, '~tries', deliveries, '~why', reason, '~by', who, '~group', group}) do
      fields[#fields + 1] = word
    end
    redis.call('XADD', rejected, '*', unpack(fields))
  end
  finish(stream, group, id)
end
"""

# KEYS stream, the key's record; ARGV milliseconds to remember the key (0 for ever), fields
# From 8.6: XADD IDMP, within at most a day.
PUT = """
local known = redis.call('GET', KEYS[2])
if known then return {known, 1} end
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
if ARGV[1] == '0' then redis.call('SET', KEYS[2], id) else redis.call('SET', KEYS[2], id, 'PX', ARGV[1]) end
return {id, 0}
"""

# KEYS stream, the records of one mover; ARGV claim, fields
PUT_MOVED = """
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then return {known, 1} end
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
redis.call('HSET', KEYS[2], ARGV[1], id)
return {id, 0}
"""

# KEYS stream, later, paused; ARGV group, consumer. First what was handed back, which is older; then a new one. Returns 1
# while the queue is paused.
# From 8.4: XREADGROUP … CLAIM.
CLAIM = _HELD + """
if redis.call('EXISTS', KEYS[3]) == 1 then return 1 end
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 10)) do
  redis.call('ZREM', KEYS[2], id)
  local entry = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if entry and entry[2] == '~later' then hand_back(stream, group, id, entry[4]) end
end
for _ = 1, 10 do
  local entry = redis.call('XPENDING', stream, group, '-', '+', 1, '~spooltop')[1]
  if not entry then break end
  local found = redis.call('XCLAIM', stream, group, consumer, 0, entry[1], 'RETRYCOUNT', entry[4] + 1)[1]
  if found then return {found[1], found[2], entry[4] + 1} end
  redis.call('XACK', stream, group, entry[1])  -- its entry was deleted, only the claim was left
end
local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', stream, '>')
if not read then return false end
local found = read[1][2][1]
return {found[1], found[2], 1}
"""

# KEYS stream; ARGV group, consumer, then id and deliveries of each claim. Returns the claims that were lost, as "id,deliveries".
# From 8.2: XACKDEL, which asks for no owner.
ACK = _HELD + """
local lost = {}
for at = 3, #ARGV, 2 do
  if held(KEYS[1], ARGV[1], ARGV[at], ARGV[2], ARGV[at + 1]) then finish(KEYS[1], ARGV[1], ARGV[at])
  else lost[#lost + 1] = ARGV[at] .. ',' .. ARGV[at + 1] end
end
return lost
"""

# KEYS stream, later; ARGV group, consumer, id, deliveries, delay in milliseconds. Returns 1, or 0 for a claim that was lost.
# From 8.8: XNACK, without a delay.
RELEASE = _HELD + """
local id, deliveries, delay = ARGV[3], ARGV[4], tonumber(ARGV[5])
if not held(KEYS[1], ARGV[1], id, ARGV[2], deliveries) then return 0 end
if delay <= 0 then
  hand_back(KEYS[1], ARGV[1], id, deliveries)
  return 1
end
local time = redis.call('TIME')
redis.call('XCLAIM', KEYS[1], ARGV[1], '~later', 0, id, 'RETRYCOUNT', deliveries, 'JUSTID')
redis.call('ZADD', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000) + delay, id)
return 1
"""

# KEYS stream, rejected; ARGV group, consumer, id, deliveries, reason. Returns 1, or 0 for a claim that was lost.
REJECT = _HELD + """
if not held(KEYS[1], ARGV[1], ARGV[3], ARGV[2], ARGV[4]) then return 0 end
set_aside(KEYS[1], ARGV[1], KEYS[2], ARGV[3], ARGV[4], ARGV[5], ARGV[2])
return 1
"""

# KEYS stream, consumers, rejected, then the lease of each consumer; ARGV group, limit, deliveries from which a message is
# rejected, then the names of these consumers. Returns the ids that were handed back. A consumer is dead if its lease ended, and
# only those that hold leases are in ``consumers``: time alone takes nothing away from anybody.
RECOVER = _HELD + """
local stream, group, left = KEYS[1], ARGV[1], tonumber(ARGV[2])
local back = {}
for at = 4, #KEYS do
  local consumer = ARGV[at]
  if redis.call('EXISTS', KEYS[at]) == 0 then
    local pending = {}
    if left > 0 then pending = redis.call('XPENDING', stream, group, '-', '+', left, consumer) end
    for _, entry in ipairs(pending) do
      left = left - 1
      if entry[4] >= tonumber(ARGV[3]) then
        local reason = 'its consumers died or gave it back ' .. entry[4] .. ' times'
        set_aside(stream, group, KEYS[3], entry[1], entry[4], reason, 'recover')
      else
        hand_back(stream, group, entry[1], entry[4])
        back[#back + 1] = entry[1]
      end
    end
    if #redis.call('XPENDING', stream, group, '-', '+', 1, consumer) == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
      redis.call('HDEL', KEYS[2], consumer)
    end
  end
end
return back
"""

# KEYS stream, lease of the other consumer; ARGV group, other consumer, id, deliveries, consumer. Takes over a claim of a
# consumer whose lease ended, with its number of deliveries. Returns the entry; nothing where somebody else was quicker.
ADOPT = _HELD + """
if redis.call('EXISTS', KEYS[2]) == 1 or not held(KEYS[1], ARGV[1], ARGV[3], ARGV[2], ARGV[4]) then return false end
local found = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[5], 0, ARGV[3], 'RETRYCOUNT', ARGV[4])[1]
if found then return {found[1], found[2]} end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])  -- its entry was deleted, only the claim was left
return false
"""

# KEYS stream, consumers, lease; ARGV group, consumer. A consumer that holds nothing leaves; one that does is dead from now on,
# so that its claims are recovered. DELCONSUMER of one that holds claims would lose them.
LEAVE = """
redis.call('DEL', KEYS[3])
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
  redis.call('HDEL', KEYS[2], ARGV[2])
end
return 1
"""
