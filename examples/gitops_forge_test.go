package examples

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// forge is as much of the APIs of GitHub and GitLab as the pipelines use. It keeps what they
// write, answers lists in pages of two, and lets a token do what it may.
type forge struct {
	url, files string // of the API, and of the store of files that it redirects to

	mu        sync.Mutex
	next      int
	tokens    map[string]map[string]string // of each token: its permissions, GitHub's names
	notes     map[int][]*note              // by request
	issues    []*note
	artifacts []*artifact
	requests  map[string]int // by the commit of main that a merge has made
	broken    string         // requests whose path has this fail
}

// note is a comment or an issue.
type note struct {
	id          int
	title, body string
	bot, closed bool
}

// artifact is what a job has left. The one of GitLab is a whole job.
type artifact struct {
	id, request int
	name        string
	fork        bool
	files       map[string][]byte
}

const (
	repositoryPath = "/repos/acme/sales"
	projectPath    = "/projects/7"
	gitlabToken    = "project-token"
	botUser        = 41
)

func newForge(t *testing.T) *forge {
	f := &forge{next: 100, tokens: map[string]map[string]string{gitlabToken: nil}, notes: map[int][]*note{}, requests: map[string]int{}}
	api, files := http.NewServeMux(), http.NewServeMux()
	may := func(pattern, permissions string, do func(w http.ResponseWriter, r *http.Request)) {
		api.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			has, known := f.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
			switch {
			case !known:
				http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
			case permissions != "" && !slices.ContainsFunc(strings.Split(permissions, " or "), func(p string) bool {
				name, need, _ := strings.Cut(p, ":")
				return has[name] == "write" || has[name] == need
			}):
				http.Error(w, `{"message":"Resource not accessible by integration"}`, http.StatusForbidden)
			case f.broken != "" && strings.Contains(r.URL.Path, f.broken):
				http.Error(w, `{"message":"Server Error"}`, http.StatusInternalServerError)
			default:
				do(w, r)
			}
		})
	}

	comments := repositoryPath + "/issues/{request}/comments"
	may("GET "+comments, "pull-requests:read or issues:read", func(w http.ResponseWriter, r *http.Request) {
		f.page(w, r, eachOf(f.notes[number(r, "request")], githubNote))
	})
	may("POST "+comments, "pull-requests:write or issues:write", func(w http.ResponseWriter, r *http.Request) {
		n := f.write(&note{bot: true}, r)
		f.notes[number(r, "request")] = append(f.notes[number(r, "request")], n)
		answer(w, http.StatusCreated, githubNote(n))
	})
	may("PATCH "+repositoryPath+"/issues/comments/{id}", "pull-requests:write or issues:write", func(w http.ResponseWriter, r *http.Request) {
		f.update(w, r, slices.Concat(slices.Collect(maps.Values(f.notes))...), githubNote)
	})
	may("GET "+repositoryPath+"/issues", "issues:read", func(w http.ResponseWriter, r *http.Request) {
		f.page(w, r, eachOf(f.open(), githubNote))
	})
	may("POST "+repositoryPath+"/issues", "issues:write", func(w http.ResponseWriter, r *http.Request) {
		n := f.write(&note{bot: true}, r)
		f.issues = append(f.issues, n)
		answer(w, http.StatusCreated, githubNote(n))
	})
	may("PATCH "+repositoryPath+"/issues/{id}", "issues:write", func(w http.ResponseWriter, r *http.Request) {
		f.update(w, r, f.issues, githubNote)
	})
	may("GET "+repositoryPath+"/actions/artifacts", "actions:read", func(w http.ResponseWriter, r *http.Request) {
		var found []any
		for _, a := range f.artifacts {
			if a.name == r.URL.Query().Get("name") {
				head := map[bool]int{false: 7, true: 8}[a.fork]
				found = append(found, map[string]any{
					"id": a.id, "name": a.name, "expired": false, "created_at": fmt.Sprintf("2026-11-25T00:00:00.%06dZ", a.id),
					"workflow_run": map[string]any{"repository_id": 7, "head_repository_id": head},
				})
			}
		}
		answer(w, http.StatusOK, map[string]any{"total_count": len(found), "artifacts": append([]any{}, found...)})
	})
	may("GET "+repositoryPath+"/actions/artifacts/{id}/zip", "actions:read", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, f.files+"/zip/"+r.PathValue("id"), http.StatusFound)
	})

	may("GET /user", "", func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, map[string]any{"id": botUser}) })
	notes := projectPath + "/merge_requests/{request}/notes"
	may("GET "+notes, "", func(w http.ResponseWriter, r *http.Request) {
		f.page(w, r, eachOf(f.notes[number(r, "request")], gitlabNote))
	})
	may("POST "+notes, "", func(w http.ResponseWriter, r *http.Request) {
		n := f.write(&note{bot: true}, r)
		f.notes[number(r, "request")] = append(f.notes[number(r, "request")], n)
		answer(w, http.StatusCreated, gitlabNote(n))
	})
	may("PUT "+notes+"/{id}", "", func(w http.ResponseWriter, r *http.Request) {
		f.update(w, r, f.notes[number(r, "request")], gitlabNote)
	})
	may("GET "+projectPath+"/issues", "", func(w http.ResponseWriter, r *http.Request) { f.page(w, r, eachOf(f.open(), gitlabNote)) })
	may("POST "+projectPath+"/issues", "", func(w http.ResponseWriter, r *http.Request) {
		n := f.write(&note{bot: true}, r)
		f.issues = append(f.issues, n)
		answer(w, http.StatusCreated, gitlabNote(n))
	})
	may("PUT "+projectPath+"/issues/{id}", "", func(w http.ResponseWriter, r *http.Request) { f.update(w, r, f.issues, gitlabNote) })
	may("GET "+projectPath+"/repository/commits/{sha}/merge_requests", "", func(w http.ResponseWriter, r *http.Request) {
		var found []any
		if iid, is := f.requests[r.PathValue("sha")]; is {
			found = append(found, map[string]any{"iid": iid, "state": "merged"})
		}
		f.page(w, r, found)
	})
	may("GET "+projectPath+"/merge_requests/{request}/pipelines", "", func(w http.ResponseWriter, r *http.Request) {
		var found []any
		for _, a := range f.artifacts {
			if a.request == number(r, "request") {
				found = append(found, map[string]any{"id": a.id, "project_id": map[bool]int{false: 7, true: 8}[a.fork]})
			}
		}
		f.page(w, r, found)
	})
	may("GET "+projectPath+"/pipelines/{id}/jobs", "", func(w http.ResponseWriter, r *http.Request) {
		f.page(w, r, []any{
			map[string]any{"id": 1, "name": "lint", "status": "success"},
			map[string]any{"id": number(r, "id"), "name": f.artifact(number(r, "id")).name, "status": "success"},
		})
	})
	may("GET "+projectPath+"/jobs/{id}/artifacts/{path...}", "", func(w http.ResponseWriter, r *http.Request) {
		if a := f.artifact(number(r, "id")); a == nil || a.files[r.PathValue("path")] == nil {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, f.files+"/file/"+r.PathValue("id")+"/"+r.PathValue("path"), http.StatusFound)
	})

	// The store is another host: whoever sends it the token gives that away.
	stored := func(pattern string, do func(w http.ResponseWriter, r *http.Request, a *artifact)) {
		files.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			a := f.artifact(number(r, "id"))
			if a == nil || r.Header.Get("Authorization") != "" || r.Header.Get("PRIVATE-TOKEN") != "" {
				http.Error(w, "no such file, or a token that is not for us", http.StatusBadRequest)
				return
			}
			do(w, r, a)
		})
	}
	stored("GET /zip/{id}", func(w http.ResponseWriter, r *http.Request, a *artifact) {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for name, text := range a.files {
			part, err := z.Create(name)
			if err == nil {
				_, err = part.Write(text)
			}
			if err != nil {
				t.Error(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Error(err)
		}
		w.Write(b.Bytes())
	})
	stored("GET /file/{id}/{path...}", func(w http.ResponseWriter, r *http.Request, a *artifact) { w.Write(a.files[r.PathValue("path")]) })

	for server, mux := range map[*string]*http.ServeMux{&f.url: api, &f.files: files} {
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		*server = s.URL
	}
	return f
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.PathValue(name)) // what is no number is nothing that there is
	return n
}

func answer(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(what)
}

func eachOf(notes []*note, of func(*note) any) (all []any) {
	for _, n := range notes {
		all = append(all, of(n))
	}
	return all
}

func githubNote(n *note) any {
	return map[string]any{
		"id": n.id, "number": n.id, "title": n.title, "body": n.body, "html_url": fmt.Sprint("https://forge/", n.id),
		"user": map[string]any{"type": map[bool]string{true: "Bot", false: "User"}[n.bot]},
	}
}

func gitlabNote(n *note) any {
	return map[string]any{
		"id": n.id, "iid": n.id, "title": n.title, "body": n.body, "description": n.body, "web_url": fmt.Sprint("https://forge/", n.id),
		"author": map[string]any{"id": map[bool]int{true: botUser, false: 1}[n.bot]},
	}
}

// page answers with a part of a list, and with where the next one is.
func (f *forge) page(w http.ResponseWriter, r *http.Request, all []any) {
	const size = 2
	at, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("page"), "1"))
	from, to := min((at-1)*size, len(all)), min(at*size, len(all))
	link := func(page int, rel string) string {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(page))
		return fmt.Sprintf(`<%s%s?%s>; rel="%s"`, f.url, r.URL.Path, q.Encode(), rel)
	}
	links := []string{link(1, "first")}
	if to < len(all) {
		links = append(links, link(at+1, "next"), link((len(all)+size-1)/size, "last"))
	}
	w.Header().Set("Link", strings.Join(links, ", "))
	answer(w, http.StatusOK, append([]any{}, all[from:to]...))
}

// write stores the note of a request, and numbers a new one.
func (f *forge) write(n *note, r *http.Request) *note {
	var sent struct {
		Title, Body, Description, State string
		StateEvent                      string `json:"state_event"`
	}
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		sent.Body = err.Error()
	}
	if n.id == 0 {
		f.next++
		n.id = f.next
	}
	n.title, n.body = cmp.Or(sent.Title, n.title), cmp.Or(sent.Body, sent.Description, n.body)
	n.closed = n.closed || sent.State == "closed" || sent.StateEvent == "close"
	return n
}

func (f *forge) update(w http.ResponseWriter, r *http.Request, all []*note, of func(*note) any) {
	for _, n := range all {
		if n.id == number(r, "id") {
			answer(w, http.StatusOK, of(f.write(n, r)))
			return
		}
	}
	http.NotFound(w, r)
}

func (f *forge) open() (all []*note) {
	for _, n := range f.issues {
		if !n.closed {
			all = append(all, n)
		}
	}
	return all
}

func (f *forge) artifact(id int) *artifact {
	for _, a := range f.artifacts {
		if a.id == id {
			return a
		}
	}
	return nil
}

// keep stores what a job has left, and returns it.
func (f *forge) keep(a artifact) *artifact {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	a.id = f.next
	f.artifacts = append(f.artifacts, &a)
	return &a
}

// comment writes a comment, or an issue for request 0, in the name of a person.
func (f *forge) comment(request int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	n := &note{id: f.next, body: body}
	if request == 0 {
		f.issues = append(f.issues, n)
		return
	}
	f.notes[request] = append(f.notes[request], n)
}

// bots are the comments of a request that jobs have written.
func (f *forge) bots(request int) (all []note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.notes[request] {
		if n.bot {
			all = append(all, *n)
		}
	}
	return all
}

// botIssues are the open issues that jobs have made.
func (f *forge) botIssues() (all []note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.open() {
		if n.bot {
			all = append(all, *n)
		}
	}
	return all
}

// breaks has requests fail whose path has the text; "": none.
func (f *forge) breaks(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = path
}
