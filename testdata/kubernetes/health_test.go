package kubernetes

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// The script says of each Job what Argo CD says by itself, and of those of salectl what it means.
func TestHealth(t *testing.T) {
	const began = "  startTime: 2026-11-21T07:29:33Z\n  ready: 0\n  terminating: 0\n  uncountedTerminatedPods: {}\n"
	condition := func(kind, reason, message string) string {
		return "  - {type: " + kind + ", status: \"True\", reason: " + reason + ", message: \"" + message +
			"\", lastProbeTime: 2026-11-21T07:29:40Z, lastTransitionTime: 2026-11-21T07:29:40Z}\n"
	}
	refused := "Container apply for pod shop/salectl-apply-8q5zl failed with exit code 3 matching FailJob rule at index 0"
	drift := "Container plan for pod shop/salectl-drift-29394857-zz6gq failed with exit code 2 matching FailJob rule at index 0"
	tests := []struct {
		name, component, status, want string
		says                          []string
	}{
		{"without a status", "apply", "{}", "Progressing", []string{"the sale is being applied"}},
		{"begun", "apply", "\n" + began + "  active: 1\n", "Progressing", []string{"the sale is being applied"}},
		{"about to fail", "apply", "\n" + began + "  failed: 1\n  conditions:\n" + condition("FailureTarget", batchv1.JobReasonPodFailurePolicy, refused), "Progressing", nil},
		{"refused", "apply", "\n" + began + "  failed: 1\n  conditions:\n" + condition("FailureTarget", batchv1.JobReasonPodFailurePolicy, refused) + condition("Failed", batchv1.JobReasonPodFailurePolicy, refused),
			"Degraded", []string{"exit code 3 matching", ": the sale was not applied"}},
		{"out of tries", "apply", "\n" + began + "  failed: 6\n  conditions:\n" + condition("Failed", batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"),
			"Degraded", []string{"backoff limit: ", "Applying it again completes it"}},
		{"out of time", "drift", "\n" + began + "  failed: 1\n  conditions:\n" + condition("Failed", batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"),
			"Degraded", []string{"deadline: whether the sale is as its file declares is not known"}},
		{"drift", "drift", "\n" + began + "  failed: 1\n  conditions:\n" + condition("Failed", batchv1.JobReasonPodFailurePolicy, drift),
			"Degraded", []string{"exit code 2 matching", "what is in force is not what the file declares"}},
		{"done", "apply", "\n" + began + "  completionTime: 2026-11-21T07:29:40Z\n  succeeded: 1\n  conditions:\n" +
			condition("SuccessCriteriaMet", batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods") + condition("Complete", batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"),
			"Healthy", []string{"Reached expected number of succeeded pods"}},
		{"suspended", "apply", "\n  conditions:\n" + condition("Suspended", "JobSuspended", "Job suspended"), "Suspended", []string{"Job suspended"}},
		{"resumed", "apply", "\n" + began + "  active: 1\n  conditions:\n" + strings.Replace(condition("Suspended", "JobResumed", "Job resumed"), `"True"`, `"False"`, 1), "Progressing", []string{"being applied"}},
		{"of somebody else", "", "\n" + began + "  failed: 1\n  conditions:\n" + condition("Failed", batchv1.JobReasonPodFailurePolicy, "why"), "Degraded", []string{"why"}},
		{"of somebody else, begun", "", "\n" + began + "  active: 1\n", "Progressing", []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The labels are those of the manifests; a Job of a CronJob has the template's.
			var job batchv1.Job
			if m := build(t); tt.component == "apply" {
				job.ObjectMeta = m.apply.ObjectMeta
			} else if tt.component == "drift" {
				job.ObjectMeta = m.drift.Spec.JobTemplate.ObjectMeta
			} else {
				job.Labels = map[string]string{"app.kubernetes.io/name": "shop", "app.kubernetes.io/component": "apply"}
			}
			if err := yaml.UnmarshalStrict([]byte("status: "+tt.status), &job); err != nil {
				t.Fatal(err)
			}
			status, message := healthOf(t, job)
			if status != tt.want {
				t.Errorf("%s: %s, want %s", status, message, tt.want)
			}
			for _, says := range tt.says {
				if !strings.Contains(message, says) || says == "" && message != "" {
					t.Errorf("it says %q, not %q", message, says)
				}
			}
			if tt.component == "" && strings.Contains(message, "sale") {
				t.Errorf("it says of somebody else's Job: %q", message)
			}
		})
	}
}

// healthOf runs the script as Argo CD does: with the object as the global obj, and with no
// library of Lua but the basic one and that of tables.
func healthOf(t *testing.T, job batchv1.Job) (status, message string) {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(folder + "/health.lua")
	if err != nil {
		t.Fatal(err)
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	l.SetGlobal("obj", luaValue(l, object))
	if err := l.DoString(string(script)); err != nil {
		t.Fatal(err)
	}
	answer, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v, and not a table", l.Get(-1))
	}
	return lua.LVAsString(answer.RawGetString("status")), lua.LVAsString(answer.RawGetString("message"))
}

func luaValue(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, of := range v {
			table.RawSetString(key, luaValue(l, of))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, of := range v {
			table.Append(luaValue(l, of))
		}
		return table
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}
