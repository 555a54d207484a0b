-- Answers a ballot in one step.
--
-- KEYS  the marker, then the key of each request
-- ARGV  ttl, the longest ttl, the lifetime of a marker after its last use (all ms);
--       then for each request token, note, mode, waiter, and how long that has waited
--       (us; below 0: do not list it). Mode: "0" to acquire or renew, "1" to renew,
--       "2" to renew and report whether nobody waits
--
-- Returns the time; the time from which the node votes if it abstains, else 0; the
-- number of keys whose end was repaired; and for each request 1 for yes, 2 for yes in
-- mode 2 if nobody waits for the key, 0 for no because the key is free, or {value, ms
-- left} of the conflicting lease.

local marker, ttl, longest, keep = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = now()

local votes_from, kept_until, new = mended_marker(marker, time, longest, run_id())
-- A marker with kept_until expires after its last use. Any other was written by apply,
-- and stays until destroy deletes it.
if new or kept_until and kept_until < time + keep * 500 then
  redis.call('HSET', marker, 'kept_until', micros(time + keep * 1000))
  redis.call('PEXPIRE', marker, keep)
end

local abstains = time < votes_from
local repaired = 0
local answer = {time, abstains and votes_from or 0, 0}

-- Returns the conflicting lease. One without an end is of a client that died between
-- SETNX and EXPIRE; one with an end too far away is older than a setback of the clock.
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
  if waiter == '' or waited < 0 then -- not listed
  elseif granted then
    redis.call('ZREM', waiting_for(key), waiter)
  elseif value and not abstains then
    redis.call('ZADD', waiting_for(key), micros(time - waited), waiter)
    redis.call('PEXPIRE', waiting_for(key), longest)
  end
end
answer[3] = repaired
return answer
