package routing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
)

// C8, C9, C47: the generic pool serves when the client's own has nobody who can now, and behind it when all are full.
func TestTheGenericPoolStandsBehindTheClientsOwn_C8_C9_C47(t *testing.T) {
	cli := func(u *catalog.Upstream) { u.Capabilities = []dialect.Capability{dialect.CapClaudeCode} }
	gen := func(u *catalog.Upstream) { u.Capabilities = []dialect.Capability{dialect.CapMessages} }
	both := func(u *catalog.Upstream) {
		u.Capabilities = []dialect.Capability{dialect.CapClaudeCode, dialect.CapMessages}
		u.Priority = 1
	}
	picky := func(u *catalog.Upstream) { cli(u); u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "other"}} }
	full := Figures{Held: 1, Slots: 1}
	open := Figures{Breaker: Open, Until: now.Add(time.Minute)}
	for _, c := range []struct {
		name   string
		snap   *catalog.Snapshot
		ups    map[string]Figures
		client dialect.Client
		want   string
		pool   dialect.Capability
	}{
		{"its own first, and only", snapshot(t, up("cli", cli, 1), up("gen", gen, 1)), nil, dialect.ClaudeCode, "cli", dialect.CapClaudeCode},
		{"another client never meets it (C7)", snapshot(t, up("cli", cli, 1), up("gen", gen, 1)), nil, dialect.OpenCode, "gen", dialect.CapMessages},
		{"nobody declares it", snapshot(t, up("gen", gen, 1)), nil, dialect.ClaudeCode, "gen", dialect.CapMessages},
		{"all out of service", snapshot(t, up("cli", cli, 1), up("gen", gen, 1)), map[string]Figures{"cli": open}, dialect.ClaudeCode, "gen", dialect.CapMessages},
		{"none takes the model", snapshot(t, up("cli", picky, 1), up("gen", gen, 1)), nil, dialect.ClaudeCode, "gen", dialect.CapMessages},
		{"all full: the generic ones behind", snapshot(t, up("cli", cli, 1), up("gen", gen, 1)), map[string]Figures{"cli": full}, dialect.ClaudeCode, "cli gen", dialect.CapClaudeCode},
		{"who is in both pools stands once", snapshot(t, up("cli", cli, 1), up("both", both, 1), up("gen", gen, 1)), map[string]Figures{"cli": full, "both": full}, dialect.ClaudeCode, "cli both gen", dialect.CapClaudeCode},
	} {
		p := plan(c.snap, board{upstreams: c.ups}, Query{Capability: dialect.CapMessages, Client: c.client, Model: "m"})
		if ids(p) != c.want || p.Capability != c.pool {
			t.Errorf("%s: %s from %s", c.name, show(p), p.Capability)
		}
	}
	p := plan(snapshot(t, up("cli", cli, 1), up("gen", gen, 1)), board{upstreams: map[string]Figures{"cli": open, "gen": open}}, Query{Capability: dialect.CapMessages, Client: dialect.ClaudeCode})
	if p.Refusal.Reason != "UPSTREAM_CIRCUIT_OPEN" || len(p.Excluded) != 2 {
		t.Errorf("%v %s", p.Refusal, show(p))
	}
}

// E13-E17: what a model's name may mean.
func TestPublicNamesAndTheUpstreamInFrontOfAModel_E13_E14_E15_E16_E17(t *testing.T) {
	exact := func(names ...string) func(*catalog.Upstream) {
		return func(u *catalog.Upstream) {
			for _, n := range names {
				u.ModelRules = append(u.ModelRules, catalog.ModelRule{Type: "exact", Value: n})
			}
		}
	}
	regex := func(u *catalog.Upstream) {
		u.Priority, u.ModelRules = 5, []catalog.ModelRule{{Type: "regex", Value: "."}}
	}
	resources := [][]catalog.Resource{up("openai-main", exact("gpt-5"), 1), up("other", exact("gpt-5", "openai-main/o3"), 1), up("open", regex, 1),
		key("main", func(k *catalog.Key) { k.Upstreams = []string{"openai-main"} }), key("other", func(k *catalog.Key) { k.Upstreams = []string{"other"} })}
	free, public := snapshot(t, resources...), snapshot(t, append(resources, setting("scheduling.public_names_only", "true"))...)
	for _, c := range []struct {
		name  string
		snap  *catalog.Snapshot
		key   string
		model string
		want  string // upstreams and the body's model, or the refusal
	}{
		{"a name", free, "all", "gpt-5", "openai-main= other= open="},
		{"the upstream in front selects it and is cut off (E16)", free, "all", "openai-main/gpt-5", "openai-main=gpt-5"},
		{"its model rules hold", free, "all", "openai-main/gpt-4", "ALL_UPSTREAMS_UNAVAILABLE (MODEL_NOT_ALLOWED)"},
		{"a declared name with a slash wins (E15)", free, "all", "openai-main/o3", "other= open="},
		{"only for who may use it (E17)", free, "main", "openai-main/o3", "ALL_UPSTREAMS_UNAVAILABLE (MODEL_NOT_ALLOWED)"},
		{"an upstream that is not granted is refused, not replaced (E17)", free, "other", "openai-main/gpt-5", "NO_AUTHORIZED_UPSTREAMS"},
		{"an unknown prefix belongs to the model", free, "all", "meta/llama", "open="},
		{"an empty model behind the slash too", free, "all", "openai-main/", "open="},
		{"public: a name", public, "all", "gpt-5", "openai-main= other="},
		{"public: not what an expression would take", public, "all", "gpt-6", "UNKNOWN_MODEL"},
		{"public: with the upstream in front", public, "all", "open/gpt-6", "open=gpt-6"},
		{"public: the names of others are unknown", public, "main", "openai-main/o3", "ALL_UPSTREAMS_UNAVAILABLE (MODEL_NOT_ALLOWED)"},
		{"public: no model passes (C43)", public, "all", "", "openai-main= other= open="},
	} {
		p := plan(c.snap, board{}, Query{Key: c.snap.Key(c.key), Model: c.model, Seed: 3})
		var got []string
		for _, u := range []string{"openai-main", "other", "open"} {
			for _, cand := range p.Candidates {
				if cand.Upstream.ID == u {
					got = append(got, u+"="+cand.UpstreamModel)
				}
			}
		}
		text := strings.Join(got, " ")
		if len(p.Candidates) == 0 {
			text = p.Refusal.Error()
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
	if r := plan(public, board{}, Query{Model: "gpt-6"}).Refusal; r.Status != 404 {
		t.Errorf("an unknown model is %d", r.Status)
	}
	for _, name := range public.Models(public.Key("all")) { // the list and the plan agree
		if p := plan(public, board{}, Query{Model: name}); len(p.Candidates) == 0 {
			t.Errorf("%s is listed and refused: %v", name, p.Refusal)
		}
	}
}

// D19-D24, D50, E17, A38, A39: what a key may use, and that doubt never widens it.
func TestGrantsFailClosed_D19_D20_D21_D22_D23_D24_D50_E17(t *testing.T) {
	off := func(u *catalog.Upstream) { u.Active = false }
	snap := snapshot(t, up("a", nil, 2), up("b", nil, 2), up("off", off, 1), up("bare", nil, 0),
		[]catalog.Resource{&catalog.Group{ID: "ups", Upstreams: []string{"a"}}, &catalog.Group{ID: "accs", Accounts: []string{"a-2", "b-1"}}, &catalog.Group{ID: "empty"},
			&catalog.Group{ID: "bare", Upstreams: []string{"bare"}}, &catalog.Group{ID: "off", Upstreams: []string{"off"}}, &catalog.Group{ID: "mixed", Upstreams: []string{"b"}, Accounts: []string{"a-1"}}},
		key("free", func(*catalog.Key) {}),
		key("listed", func(k *catalog.Key) { k.Upstreams = []string{"a"} }),
		key("none", func(k *catalog.Key) { k.Access, k.Upstreams = catalog.Restricted, nil }),
		key("ups", func(k *catalog.Key) { k.Group = "ups" }), key("accs", func(k *catalog.Key) { k.Group = "accs" }),
		key("mixed", func(k *catalog.Key) { k.Group = "mixed" }), key("empty", func(k *catalog.Key) { k.Group = "empty" }),
		key("empty-listed", func(k *catalog.Key) { k.Group, k.Upstreams = "empty", []string{"a"} }),
		key("bare", func(k *catalog.Key) { k.Group = "bare" }), key("off", func(k *catalog.Key) { k.Group = "off" }),
		key("both", func(k *catalog.Key) { k.Group, k.Upstreams = "accs", []string{"b"} }),
		key("disjoint", func(k *catalog.Key) { k.Group, k.Upstreams = "ups", []string{"b"} }))
	strange := &catalog.Key{ID: "of another snapshot"}
	for _, c := range []struct {
		name, want string
		key        *catalog.Key
	}{
		{"no user, no group, unrestricted: everything (D19, D20, A39)", "a-1 a-2 b-1 b-2", snap.Key("free")},
		{"restricted to a list (A38)", "a-1 a-2", snap.Key("listed")},
		{"restricted to nothing (E17)", "403 NO_AUTHORIZED_UPSTREAMS", snap.Key("none")},
		{"the upstreams of a group (D23)", "a-1 a-2", snap.Key("ups")},
		{"the accounts of a group (D23)", "a-2 b-1", snap.Key("accs")},
		{"both kinds in one group", "a-1 b-1 b-2", snap.Key("mixed")},
		{"an empty group (D22, D50)", "503 NO_ACCOUNTS_IN_GROUP", snap.Key("empty")},
		{"an empty group and a list of its own (D24)", "503 NO_ACCOUNTS_IN_GROUP", snap.Key("empty-listed")},
		{"a group of an upstream without accounts (D22)", "503 NO_ACCOUNTS_IN_GROUP", snap.Key("bare")},
		{"a group of an inactive upstream", "403 NO_AUTHORIZED_UPSTREAMS", snap.Key("off")},
		{"a group and a list: what both have", "b-1", snap.Key("both")},
		{"a group and a list with nothing in common", "403 NO_AUTHORIZED_UPSTREAMS", snap.Key("disjoint")},
		{"a key that the snapshot does not know", "403 NO_AUTHORIZED_UPSTREAMS", strange},
	} {
		for seed := range uint64(5) {
			p := plan(snap, board{}, Query{Key: c.key, Seed: seed})
			var got []string
			for _, u := range []string{"a", "b", "bare", "off"} {
				for _, cand := range p.Candidates {
					if cand.Upstream.ID == u {
						got = append(got, cand.Accounts...)
					}
				}
			}
			text := strings.Join(got, " ")
			if len(p.Candidates) == 0 {
				text = fmt.Sprint(p.Refusal.Status, " ", p.Refusal.Error())
			}
			if text != c.want {
				t.Errorf("%s: %s, want %s", c.name, text, c.want)
			}
		}
	}
}

// D21, D50: a group that cannot be read takes its keys with it, whatever it allowed before.
func TestAGroupThatCannotBeReadFailsClosed_D21_D50(t *testing.T) {
	s := catalog.NewState()
	var cmds []catalog.Command
	for _, list := range [][]catalog.Resource{up("a", nil, 1), {&catalog.Group{ID: "g", Upstreams: []string{"a"}}}, key("k", func(k *catalog.Key) { k.Group = "g" })} {
		for _, r := range list {
			cmds = append(cmds, catalog.Apply{Resource: r})
		}
	}
	changes, err := catalog.DecideAll(s, cmds)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		for _, f := range c.Facts {
			s.Evolve(f, s.Revision+1)
		}
	}
	snap := catalog.Build(s, nil)
	if p := plan(snap, board{}, Query{Key: snap.Key("k")}); ids(p) != "a" {
		t.Fatal(show(p))
	}
	s.Evolve(&catalog.Unreadable{Ref: catalog.Ref{Kind: catalog.KindGroup, ID: "g"}, Reason: "test"}, s.Revision+1)
	snap = catalog.Build(s, nil)
	if p := plan(snap, board{}, Query{Key: snap.Key("k")}); p.Refusal.Error() != "NO_ACCOUNTS_IN_GROUP" {
		t.Errorf("%s %v", show(p), p.Refusal)
	}
}
