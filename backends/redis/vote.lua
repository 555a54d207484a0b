-- Answers a ballot in one step.
--
-- KEYS  the marker, then the key of each ask
-- ARGV  ttl, the longest ttl, how long a marker is kept after its last use
--       (all ms); then token, note, how it is asked for, waiter, and for how long that
--       has waited (us; below 0: it is not listed), for each ask. How: "0" if it may be
--       taken anew, "1" to renew it, "2" to renew it and tell
--
-- Returns the time, the time from which the node votes if it abstains (else 0), how many keys
-- without an end were given one, and for each ask 1 for yes, 2 for yes if it was to
-- tell and nobody is on the list of the key, 0 for no because nobody has it, or
-- {value, ms left} of the lease that is in the way.

local marker, ttl, longest, keep = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = now()

local votes_from, kept_until, new = mended_marker(marker, time, longest, run_id())
-- A marker that is kept until some time goes by itself when its last user has
-- gone. Any other is apply's, and stays until destroy removes it.
if new or kept_until and kept_until < time + keep * 500 then
  redis.call('HSET', marker, 'kept_until', micros(time + keep * 1000))
  redis.call('PEXPIRE', marker, keep)
end

local abstains = time < votes_from
local repaired = 0
local answer = {time, abstains and votes_from or 0, 0}

-- The lease that is in the way. Without an end it was left by a client that died
-- between SETNX and EXPIRE; too far an end is from before the clock was set back.
local function holder(key, value)
  local left = redis.call('PTTL', key)
  if left < 0 or left > longest then
    redis.call('PEXPIRE', key, longest)
    left = longest
    repaired = repaired + 1
  end
  return {value, left}
end

for i = 2, #KEYS do
  local key, at = KEYS[i], 5 * i - 6
  local token, note, renew, waiter = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local waited = tonumber(ARGV[at + 4])
  local lease = token .. ' ' .. note
  local granted, value = false, nil
  if not abstains and renew == '0' then
    granted = redis.call('SET', key, lease, 'NX', 'PX', ttl)
  end
  if not granted then
    value = redis.call('GET', key)
    local mine = value and (token_of(value) == token or waiter ~= '' and value == kept_for(waiter))
    if mine and not abstains then
      granted = redis.call('SET', key, lease, 'PX', ttl)
    end
  end
  if granted then
    local alone = renew == '2' and redis.call('EXISTS', waiting_for(key)) == 0
    answer[i + 2] = alone and 2 or 1
  elseif value then
    answer[i + 2] = holder(key, value)
  else
    answer[i + 2] = 0
  end
  if waiter == '' or waited < 0 then -- it is on no list
  elseif granted then
    redis.call('ZREM', waiting_for(key), waiter)
  elseif value and not abstains then
    redis.call('ZADD', waiting_for(key), micros(time - waited), waiter)
    redis.call('PEXPIRE', waiting_for(key), longest)
  end
end
answer[3] = repaired
return answer
