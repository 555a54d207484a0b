-- Argo CD runs this for every Job: it returns the health of the Job as Argo CD itself does, and
-- for Jobs of salectl also its meaning. It uses no library of Lua: Argo CD provides none.
local meanings = {
  apply = {
    running = "the sale is being applied",
    refused = "the sale was not applied, since it is refused (exit code 3) or its file is wrong (4): the log of the Job's Pod has the remedy. The servers sell on as before.",
    failed = "the sale is not applied, or in part: the log of the Job's Pod names what was out of reach. Applying it again completes it. The servers sell on.",
  },
  drift = {
    running = "the sale is being compared with its file",
    refused = "what is in force is not what the file declares (exit code 2), or drift that is refused (3), or the file is wrong (4): the log of the Job's Pod has the plan. docs/gitops.md has the remedies.",
    failed = "whether the sale is as its file declares is not known: the log of the Job's Pod names what was out of reach.",
  },
}

local labels = obj.metadata.labels or {}
local meaning
if labels["app.kubernetes.io/name"] == "salectl" then
  meaning = meanings[labels["app.kubernetes.io/component"]]
end

-- The message of Kubernetes first, then its meaning.
local function health(status, message, what)
  if meaning ~= nil and what ~= nil then
    if message ~= "" then
      message = message .. ": "
    end
    message = message .. meaning[what]
  end
  return {status = status, message = message}
end

local done, suspended
for _, c in ipairs(obj.status and obj.status.conditions or {}) do
  if c.status == "True" then
    if c.type == "Failed" then
      local what = "failed"
      if c.reason == "PodFailurePolicy" then
        what = "refused"
      end
      return health("Degraded", c.message or "", what)
    elseif c.type == "Complete" then
      done = health("Healthy", c.message or "")
    elseif c.type == "Suspended" then
      suspended = health("Suspended", c.message or "")
    end
  end
end
return done or suspended or health("Progressing", "", "running")
