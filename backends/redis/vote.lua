-- Answers a ballot in one step.
--
-- KEYS  the marker, then the key of each ask
-- ARGV  ttl, the longest ttl, how long a marker is kept after its last use
--       (all ms); then token, note and "1" to renew or "0", for each ask
--
-- Returns the time, the time from which the node votes if it abstains (else 0),
-- and for each ask 1 for yes, 0 for no because nobody has it, or {value, ms
-- left} of the lease that is in the way.

local marker, ttl, longest, keep = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = now()
local end_of_marker = redis.call('PTTL', marker)
local votes_from = mended_marker(marker, time, longest)
-- A marker without an end is apply's, and stays until destroy removes it. Any
-- other goes by itself when its last user has gone.
if end_of_marker ~= -1 then
  redis.call('PEXPIRE', marker, keep)
end

local abstains = time < votes_from
local answer = {time, abstains and votes_from or 0}
for i = 2, #KEYS do
  local key, token, note, renew = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local value = redis.call('GET', key)
  local mine = value and token_of(value) == token
  if not abstains and (mine or not value and renew == '0') then
    redis.call('SET', key, token .. ' ' .. note, 'PX', ttl)
    answer[i + 1] = 1
  elseif value then
    -- Without an end it was left by a client that died between SETNX and
    -- EXPIRE; too far an end is from before the clock was set back.
    local left = redis.call('PTTL', key)
    if left < 0 or left > longest then
      redis.call('PEXPIRE', key, longest)
      left = longest
    end
    answer[i + 1] = {value, left}
  else
    answer[i + 1] = 0
  end
end
return answer
