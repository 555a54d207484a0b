package shop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Path is where the sale is, as on a server of salectl.
const Path = "/v1/sales/" + name + "/claims"

const name = "movie-tickets"

// request is a claim, and accepted the answer to one that has a unit: as salectl has them.
type (
	request struct {
		User     string `json:"user"`
		Quantity int64  `json:"quantity"`
	}
	accepted struct {
		Outcome Outcome   `json:"outcome"`
		Claim   string    `json:"claim"`
		Sale    string    `json:"sale"`
		User    string    `json:"user"`
		Units   []int64   `json:"units"`
		At      time.Time `json:"at"`
	}
	problem struct {
		Outcome Outcome `json:"outcome"`
		Detail  string  `json:"detail,omitempty"`
	}
)

// ServeHTTP answers claims, made as salectl's server takes them.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in request
	err := json.NewDecoder(r.Body).Decode(&in)
	key := r.Header.Get("Idempotency-Key")
	if err != nil || in.User == "" || key == "" || in.Quantity != 1 {
		refuse(w, http.StatusUnprocessableEntity, problem{"bad_request", "a claim has a user, a key, and a quantity of 1"})
		return
	}
	switch a := s.Claim(r.Context(), in.User, key); a.Outcome {
	case Sold:
		status, id := http.StatusCreated, fmt.Sprintf("%d-%d", a.Shard, a.Unit)
		if a.Again {
			status = http.StatusOK
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", Path+"/"+id)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(accepted{Sold, id, name, in.User, []int64{a.Unit}, a.At}) // the client may be gone
	case Unknown:
		refuse(w, http.StatusServiceUnavailable, problem{Unknown, a.Err.Error()})
	default:
		refuse(w, http.StatusConflict, problem{Outcome: a.Outcome})
	}
}

func refuse(w http.ResponseWriter, status int, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// Echo is what HTTP costs anyway: it reads a claim and writes an answer as those of a shop
// are, and decides nothing.
func Echo(w http.ResponseWriter, r *http.Request) {
	var in request
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(accepted{Sold, "3-1234-56", name, in.User, []int64{in.Quantity}, echoed})
}

var echoed = time.Date(2026, 11, 11, 12, 0, 0, 123456000, time.UTC)
