-- Reads the identity, time and configuration of the server.
--
-- Returns its run id, the time, its mode, its role, its master (":" if it has
-- none), and its eviction policy. Missing values are "".

local function field(section, name)
  return string.match('\n' .. redis.call('INFO', section), '\n' .. name .. ':([^\r\n]*)') or ''
end

local master = field('replication', 'master_host') .. ':' .. field('replication', 'master_port')
return {run_id(), now(), field('server', 'redis_mode'), field('replication', 'role'), master,
  field('memory', 'maxmemory_policy')}
