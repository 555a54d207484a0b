-- wrk's requests: a claim of another user each, some a second. What was answered with a
-- claim goes to the file that is named first, a line each: user, claim.
local n, told, name

function init(args)
  n, told, name = 0, io.open(args[1], "w"), args[2]
end

function request()
  n = n + 1
  local headers = { ["Content-Type"] = "application/json", ["Idempotency-Key"] = "key-" .. n }
  return wrk.format("POST", nil, headers, '{"user": "' .. name .. "-user-" .. n .. '"}')
end

function delay()
  return 20 -- ms
end

function response(status, headers, body)
  if status == 201 or status == 200 then
    told:write(body:match('"user":"([^"]+)"'), " ", body:match('"claim":"([^"]+)"'), "\n")
  else
    told:write("- ", status, " ", body:match('"outcome":"([^"]+)"') or "", "\n")
  end
  told:flush()
end
