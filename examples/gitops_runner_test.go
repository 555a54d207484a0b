package examples

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// pipelines are those of one platform for a repository of sales: the commands of their files are run, line
// by line, as the platform's runner does, in a new clone each time.
type pipelines interface {
	// plan is what runs for a request whose branch is to be merged into main.
	plan(request int, branch string) ran
	// merge merges the branch and runs what main then runs; push runs that alone.
	merge(request int, branch string) ran
	push() ran
	// anew plans main by hand and then applies.
	anew() (plan, apply ran)
	nightly() ran
	destroy() ran
	// fork is what runs for a request from a fork.
	fork(request int, branch string) ran
	// forged puts a made-up plan of these files where one of a fork would be.
	forged(request int, version string, plan []byte)
}

// ran is what became of a pipeline.
type ran struct {
	jobs int // that were run
	code int // of the first step that failed
	out  string
	kept []*artifact
}

// site is a repository of sales, and all that its pipelines need.
type site struct {
	t       *testing.T
	forge   *forge
	repo    string // a clone to work in, and the origin of all others
	program string
	read    []string
	write   []string          // variables of jobs that read, and of those that write
	before  map[string]func() // is called before a line of a script is run

	environments []string // of those in the pipelines
}

// pipelineProgram is salectl without the race detector: pipelines start it hundreds of times.
var pipelineProgram = built("..")

// newSite makes a repository with the example's files, with sales that are kept at home.
func newSite(t *testing.T, home string) *site {
	s := &site{t: t, forge: newForge(t), repo: t.TempDir(), before: map[string]func(){}, environments: []string{"production"}}
	s.git("init", "--quiet", "--initial-branch=main")
	s.copy("gitops/sales", "sales")
	s.copy("gitops/ci", "ci")
	place := regexp.MustCompile(`(?s)  redis:\n.*`)
	for _, name := range []string{"sales/film-night.yaml", "sales/museum-day.yaml"} {
		if s.edit(name, place, home) == 0 || s.edit(name, regexp.MustCompile(`  env: .*\n`), "") == 0 {
			t.Fatalf("%s names no Redis", name)
		}
	}
	s.set("film-night", "stock", "  stock: 100")
	program, err := pipelineProgram()
	if err != nil {
		t.Fatal(err)
	}
	s.program = program
	script := []byte("#!/bin/sh\nexec " + program + ` "$@"` + "\n")
	s.forge.mu.Lock()
	tool := &artifact{id: 1, files: map[string][]byte{"salectl": script}}
	s.forge.artifacts = append(s.forge.artifacts, tool)
	s.forge.mu.Unlock()
	s.put("ci/salectl.env", fmt.Sprintf("SALECTL_URL=%s/file/1/salectl\nSALECTL_SHA256=%x\n", s.forge.files, sha256.Sum256(script)))
	s.commit("The pipelines")
	return s
}

func (s *site) copy(from, to string) {
	s.t.Helper()
	if err := os.CopyFS(filepath.Join(s.repo, to), os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) put(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.repo, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// edit changes a file of the repository, and returns in how many places.
func (s *site) edit(name string, from *regexp.Regexp, to string) int {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.repo, name))
	if err != nil {
		s.t.Fatal(err)
	}
	s.put(name, from.ReplaceAllLiteralString(string(text), to))
	return len(from.FindAll(text, -1))
}

// set changes a line of a sale's file, such as its stock.
func (s *site) set(sale, line, to string) {
	s.t.Helper()
	if s.edit("sales/"+sale+".yaml", regexp.MustCompile(`(?m)^ *`+line+`:.*`), to) != 1 {
		s.t.Fatalf("the file of %s has not one line %s", sale, line)
	}
}

func (s *site) git(args ...string) string {
	s.t.Helper()
	out, err := s.try("git", args...)
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(out)
}

// try runs a program in the repository.
func (s *site) try(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = s.repo, append(os.Environ(), s.write...)
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// salectl does by hand what must work.
func (s *site) salectl(args ...string) string {
	s.t.Helper()
	out, err := s.try(s.program, args...)
	if err != nil {
		s.t.Fatalf("salectl %v: %v\n%s", args, err, out)
	}
	return out
}

func (s *site) commit(message string) {
	s.t.Helper()
	s.git("add", "--all")
	s.git("commit", "--quiet", "--message", message)
}

// branch commits what change does to a branch of that name, a new one off main or the one there
// is, and returns to main.
func (s *site) branch(name string, change func()) {
	s.t.Helper()
	if _, err := s.try("git", "checkout", "--quiet", name); err != nil {
		s.git("checkout", "--quiet", "-b", name, "main")
	}
	change()
	s.commit("A change of " + name)
	s.git("checkout", "--quiet", "main")
}

func (s *site) version(commit string) string {
	return "production-" + s.git("rev-parse", commit+":sales")
}

// workspace is a new clone, with that commit checked out.
func (s *site) workspace(commit string) string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "work")
	s.git("clone", "--quiet", "--no-checkout", s.repo, dir)
	s.git("-C", dir, "fetch", "--quiet", "origin", commit)
	s.git("-C", dir, "checkout", "--quiet", "--detach", commit)
	return dir
}

// bash runs a script as a runner does, with the variables and no others.
func (s *site) bash(r *ran, dir, script string, variables []string) bool {
	s.t.Helper()
	for line, call := range s.before {
		if strings.Contains(script, line) {
			call()
		}
	}
	path := filepath.Join(s.t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("bash", "-e", path)
	cmd.Dir = dir
	cmd.Env = append([]string{"CI=true", "PATH=" + os.Getenv("PATH"), "HOME=" + s.t.TempDir(), "TMPDIR=" + s.t.TempDir()}, variables...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	r.out += out.String()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = cmp.Or(r.code, exit.ExitCode())
	case err != nil:
		s.t.Fatal(err)
	}
	return err == nil
}

// collect returns the files that a glob names, by their paths in the workspace.
func (s *site) collect(dir, pattern string) map[string][]byte {
	s.t.Helper()
	files := map[string][]byte{}
	matches, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, match := range matches {
		err := filepath.WalkDir(match, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, _ := filepath.Rel(dir, path) // is under dir
			files[name], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return files
}

// onGitHub runs workflows.
type onGitHub struct{ *site }

type workflow struct {
	Permissions map[string]string
	Env         map[string]string
	Jobs        map[string]workflowJob
}

type workflowJob struct {
	If          string
	Environment string
	Strategy    struct {
		FailFast *bool `yaml:"fail-fast"`
		Matrix   struct{ Environment []string }
	}
	Permissions map[string]string
	Env         map[string]string
	Steps       []struct {
		ID, If, Run, Uses string
		Env, With         map[string]string
	}
}

var expression = regexp.MustCompile(`\$\{\{ *([^}]*?) *\}\}`)

// forkCondition keeps a job from running for requests from forks.
const forkCondition = "github.event_name == 'workflow_dispatch' || github.event.pull_request.head.repo.full_name == github.repository"

// run runs a workflow, which has one job for each environment.
func (g onGitHub) run(file, event, commit string, request int, head string) (r ran) {
	t := g.t
	t.Helper()
	text, err := os.ReadFile(filepath.Join("gitops/github", file))
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	if len(w.Jobs) != 1 {
		t.Fatalf("%s has %d jobs", file, len(w.Jobs))
	}
	var job workflowJob
	for _, job = range w.Jobs {
	}
	before := 0
	for _, environment := range job.Strategy.Matrix.Environment {
		if !slices.Contains(g.environments, environment) {
			continue
		}
		if before = cmp.Or(before, r.code); before != 0 && (job.Strategy.FailFast == nil || *job.Strategy.FailFast) {
			return r
		}
		r.code = 0
		switch {
		case job.If != "" && job.If != forkCondition:
			t.Fatalf("%s: nobody knows what %q means", file, job.If)
		case job.If != "" && event == "pull_request" && head != "acme/sales":
			return r
		case len(job.Permissions) > 0 || w.Permissions == nil:
			t.Fatalf("%s: the permissions are not those of the workflow", file)
		}
		r.jobs++
		g.forge.mu.Lock()
		token := fmt.Sprint("ghs_", len(g.forge.tokens))
		g.forge.tokens[token] = w.Permissions
		g.forge.mu.Unlock()
		secrets := g.write
		if job.Environment == "salectl-read-${{ matrix.environment }}" {
			secrets = g.read
		}
		outputs := map[string]string{}
		value := func(text string) string {
			return expression.ReplaceAllStringFunc(text, func(e string) string {
				name := expression.FindStringSubmatch(e)[1]
				secret, isSecret := strings.CutPrefix(name, "secrets.")
				switch output, is := outputs[name]; {
				case is:
					return output
				case name == "matrix.environment":
					return environment
				case name == "github.token":
					return token
				case isSecret:
					for _, v := range secrets {
						if text, is := strings.CutPrefix(v, secret+"="); is {
							return text
						}
					}
					return ""
				}
				t.Fatalf("%s: nobody knows what %s is", file, e)
				return ""
			})
		}
		files := t.TempDir()
		at := func(name string) string { return filepath.Join(files, name) }
		payload := "{}"
		if request != 0 {
			payload = fmt.Sprintf(`{"number": %d, "pull_request": {"number": %d}}`, request, request)
		}
		for name, text := range map[string]string{"event.json": payload, "output": "", "summary": ""} {
			if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		standard := []string{
			"GITHUB_ACTIONS=true", "GITHUB_API_URL=" + g.forge.url, "GITHUB_REPOSITORY=acme/sales", "GITHUB_SHA=" + commit,
			"GITHUB_EVENT_NAME=" + event, "GITHUB_EVENT_PATH=" + at("event.json"), "GITHUB_OUTPUT=" + at("output"), "GITHUB_STEP_SUMMARY=" + at("summary"),
		}
		dir := ""
		for _, step := range job.Steps {
			always := step.If == "${{ always() }}"
			if step.If != "" && !always {
				t.Fatalf("%s: nobody knows what %q means", file, step.If)
			}
			if r.code != 0 && !always {
				continue
			}
			switch action, version, _ := strings.Cut(step.Uses, "@"); {
			case step.Run != "":
				variables := slices.Clone(standard)
				for _, env := range []map[string]string{w.Env, job.Env, step.Env} {
					for name, text := range env {
						variables = append(variables, name+"="+value(text))
					}
				}
				g.bash(&r, dir, step.Run, variables)
				output, err := os.ReadFile(at("output"))
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(output)) {
					name, text, _ := strings.Cut(strings.TrimSpace(line), "=")
					outputs["steps."+step.ID+".outputs."+name] = text
				}
			case !regexp.MustCompile(`^v[0-9]+$|^[0-9a-f]{40}$`).MatchString(version):
				t.Fatalf("%s: %s is not pinned", file, step.Uses)
			case action == "actions/checkout" && step.With["persist-credentials"] == "false":
				dir = g.workspace(commit)
			case action == "actions/upload-artifact":
				files := map[string][]byte{}
				path := value(step.With["path"])
				for name, text := range g.collect(dir, path) { // by their paths below the folder
					below := strings.TrimPrefix(strings.TrimPrefix(name, path), "/")
					files[cmp.Or(below, filepath.Base(name))] = text
				}
				if len(files) == 0 {
					if step.With["if-no-files-found"] == "error" {
						t.Fatalf("%s: there is no %s to be kept\n%s", file, path, r.out)
					}
					continue
				}
				r.kept = append(r.kept, g.forge.keep(artifact{name: value(step.With["name"]), files: files}))
			default:
				t.Fatalf("%s: nobody knows what %s does", file, step.Uses)
			}
		}
		summary, err := os.ReadFile(at("summary"))
		if err != nil {
			t.Fatal(err)
		}
		r.out += string(summary)
	}
	r.code = cmp.Or(before, r.code)
	return r
}

func (g onGitHub) plan(request int, branch string) ran {
	return g.run("plan.yml", "pull_request", g.merged(branch), request, "acme/sales")
}

func (g onGitHub) fork(request int, branch string) ran {
	return g.run("plan.yml", "pull_request", g.merged(branch), request, "mallory/sales")
}

// merged is the merge of a branch into main that GitHub makes for a request.
func (g onGitHub) merged(branch string) string {
	tree := g.git("merge-tree", "--write-tree", "main", branch)
	commit := g.git("commit-tree", tree, "-p", "main", "-p", branch, "-m", "A merge")
	g.git("update-ref", "refs/pull/"+branch+"/merge", commit)
	return commit
}

func (g onGitHub) merge(_ int, branch string) ran {
	g.git("merge", "--quiet", "--squash", branch)
	g.commit("The merge of " + branch)
	return g.push()
}

func (g onGitHub) push() ran {
	return g.run("apply.yml", "push", g.git("rev-parse", "main"), 0, "acme/sales")
}

func (g onGitHub) anew() (plan, apply ran) {
	return g.run("plan.yml", "workflow_dispatch", g.git("rev-parse", "main"), 0, "acme/sales"), g.push()
}

func (g onGitHub) nightly() ran {
	return g.run("drift.yml", "schedule", g.git("rev-parse", "main"), 0, "acme/sales")
}

func (g onGitHub) destroy() ran {
	return g.run("destroy.yml", "schedule", g.git("rev-parse", "main"), 0, "acme/sales")
}

func (g onGitHub) forged(_ int, version string, plan []byte) {
	g.forge.keep(artifact{name: "salectl-plan-" + version, fork: true, files: map[string][]byte{version + ".plan": plan}})
}

// onGitLab runs the jobs of .gitlab-ci.yml.
type onGitLab struct{ *site }

type gitlabJob struct {
	Extends      string
	Stage        string
	Script       []string
	BeforeScript []string `yaml:"before_script"`
	Environment  struct{ Name string }
	Rules        []struct{ If, When string }
	Variables    map[string]string
	Parallel     gitlabParallel
	Needs        []struct {
		Job      string
		Parallel gitlabParallel
	}
	Artifacts struct {
		Paths []string
		When  string
	}
}

type gitlabParallel struct{ Matrix []map[string][]string }

// gitlabEnvironment is the variable of a job for staging or production.
const gitlabEnvironment = "SALE_ENVIRONMENT"

// expanded returns a job by the names of its variants, one for each environment, with what it extends.
func (g onGitLab) expanded(name string, jobs map[string]gitlabJob) map[string]gitlabJob {
	job := jobs[name]
	for parent := job.Extends; parent != ""; parent = jobs[parent].Extends {
		of := jobs[parent]
		job.Environment.Name = cmp.Or(job.Environment.Name, of.Environment.Name)
		if job.Script == nil {
			job.Script, job.Artifacts = of.Script, of.Artifacts
		}
		if job.Rules == nil {
			job.Rules = of.Rules
		}
		if job.Parallel.Matrix == nil {
			job.Parallel = of.Parallel
		}
	}
	variants := map[string]gitlabJob{}
	if environment := job.Variables[gitlabEnvironment]; slices.Contains(g.environments, environment) {
		variants[name] = job
	}
	for _, of := range job.Parallel.Matrix {
		for _, environment := range of[gitlabEnvironment] {
			if slices.Contains(g.environments, environment) {
				job.Variables = map[string]string{gitlabEnvironment: environment}
				variants[fmt.Sprintf("%s: [%s]", name, environment)] = job
			}
		}
	}
	return variants
}

// run runs the jobs of a pipeline that has these variables, stage by stage.
func (g onGitLab) run(commit string, request int, variables ...string) (r ran) {
	t := g.t
	t.Helper()
	text, err := os.ReadFile("gitops/gitlab/gitlab-ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]yaml.Node
	var stages []string
	jobs := map[string]gitlabJob{}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for name, node := range file {
		if name == "stages" {
			err = node.Decode(&stages)
		} else {
			var job gitlabJob
			err = node.Decode(&job)
			jobs[name] = job
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	variables = append(variables,
		"GITLAB_CI=true", "CI_API_V4_URL="+g.forge.url, "CI_PROJECT_ID=7", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_SHA="+commit, "SALECTL_TOKEN="+gitlabToken)
	all := map[string]gitlabJob{}
	for name := range jobs {
		if !strings.HasPrefix(name, ".") {
			maps.Copy(all, g.expanded(name, jobs))
		}
	}
	kept := map[string]map[string][]byte{} // by the jobs of the stages before
	for _, stage := range stages {
		before, now := r.code, map[string]map[string][]byte{}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			job := all[name]
			if job.Stage != stage || !g.holds(job, variables) || before != 0 {
				continue
			}
			r.jobs++
			dir := g.workspace(commit)
			for of, files := range kept {
				if len(job.Needs) > 0 && of != fmt.Sprintf("%s: %v", job.Needs[0].Job, job.Needs[0].Parallel.Matrix[0][gitlabEnvironment]) {
					continue
				}
				for path, text := range files {
					if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			own := slices.Concat(variables, map[string][]string{"salectl-read/$SALE_ENVIRONMENT": g.read, "salectl/$SALE_ENVIRONMENT": g.write}[job.Environment.Name],
				[]string{gitlabEnvironment + "=" + job.Variables[gitlabEnvironment]})
			script := "set -eo pipefail\n" + strings.Join(slices.Concat(jobs["default"].BeforeScript, job.Script), "\n")
			if passed := g.bash(&r, dir, script, own); !passed && job.Artifacts.When != "always" {
				continue
			}
			files := map[string][]byte{}
			for _, path := range job.Artifacts.Paths {
				maps.Copy(files, g.collect(dir, path))
			}
			if len(job.Artifacts.Paths) > 0 {
				now[name] = files
				r.kept = append(r.kept, g.forge.keep(artifact{name: name, request: request, files: files}))
			}
		}
		maps.Copy(kept, now)
	}
	return r
}

// holds reports whether a rule lets a job into a pipeline.
func (g onGitLab) holds(job gitlabJob, variables []string) bool {
	value := func(word string) string {
		if text, is := strings.CutPrefix(word, `"`); is {
			return strings.TrimSuffix(text, `"`)
		}
		for _, v := range variables {
			if text, is := strings.CutPrefix(v, strings.TrimPrefix(word, "$")+"="); is {
				return text
			}
		}
		return ""
	}
	return slices.ContainsFunc(job.Rules, func(rule struct{ If, When string }) bool {
		return !slices.ContainsFunc(strings.Split(rule.If, " && "), func(condition string) bool {
			a, b, is := strings.Cut(condition, " == ")
			if !is {
				g.t.Fatalf("nobody knows what %q means", rule.If)
			}
			return value(a) != value(b)
		})
	})
}

func (g onGitLab) plan(request int, branch string) ran { return g.request(request, branch, "7") }
func (g onGitLab) fork(request int, branch string) ran { return g.request(request, branch, "8") }

func (g onGitLab) request(request int, branch, project string) ran {
	return g.run(g.git("rev-parse", branch), request, "CI_PIPELINE_SOURCE=merge_request_event",
		fmt.Sprint("CI_MERGE_REQUEST_IID=", request), "CI_MERGE_REQUEST_SOURCE_PROJECT_ID="+project)
}

func (g onGitLab) merge(request int, branch string) ran {
	g.git("merge", "--quiet", "--no-ff", "--message", "The merge of "+branch, branch)
	g.forge.mu.Lock()
	g.forge.requests[g.git("rev-parse", "main")] = request
	g.forge.mu.Unlock()
	return g.push()
}

func (g onGitLab) push() ran { return g.main("push") }

func (g onGitLab) main(source string, more ...string) ran {
	return g.run(g.git("rev-parse", "main"), 0, append(more, "CI_PIPELINE_SOURCE="+source, "CI_COMMIT_BRANCH=main")...)
}

func (g onGitLab) anew() (plan, apply ran) {
	r := g.main("web")
	return r, r
}

func (g onGitLab) nightly() ran { return g.main("schedule", "SALECTL_JOB=drift") }
func (g onGitLab) destroy() ran { return g.main("schedule", "SALECTL_JOB=destroy") }

func (g onGitLab) forged(request int, version string, plan []byte) {
	g.forge.keep(artifact{name: "plan: [production]", request: request, fork: true, files: map[string][]byte{"out/" + version + ".plan": plan}})
	g.forge.keep(artifact{name: "plan: [production]", request: request, files: map[string][]byte{"out/of-a-push-that-was-taken-back.plan": plan}})
}
