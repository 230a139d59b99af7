package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/domain/catalog"
)

// Settings is how an instance is set up, before there is a catalogue. Flags win over PENSTOCK_* of the environment,
// and these over penstock.yaml.
type Settings struct {
	Listen      string // data plane
	AdminListen string
	AdminToken  string // "": the file in the data folder
	Data        string // data folder
	Store       string
	SecretKey   string // "": the file in the data folder
	Durability  string
	Profile     string
	OnStoreDown string // "": as it is best for the store
	SpoolMax    string // bytes; "": the default
	LogFormat   string
	LogLevel    string
}

// setting is one line of the table: its name is the field of penstock.yaml and, with dashes, the flag.
type setting struct {
	name     string
	env      string
	fallback string
	usage    string
	secret   bool // no flag: command lines are seen by everyone on the machine
	field    func(*Settings) *string
}

var settings = []setting{
	{"listen", "PENSTOCK_LISTEN", ":8080", "address that clients call", false, func(s *Settings) *string { return &s.Listen }},
	{"admin_listen", "PENSTOCK_ADMIN_LISTEN", "127.0.0.1:8081", "address of the admin API", false, func(s *Settings) *string { return &s.AdminListen }},
	{"admin_token", "PENSTOCK_ADMIN_TOKEN", "", "", true, func(s *Settings) *string { return &s.AdminToken }},
	{"data", "PENSTOCK_DATA", "./data", "data folder", false, func(s *Settings) *string { return &s.Data }},
	{"store", "PENSTOCK_STORE", "sqlite", "event store: sqlite, or postgres://user:password@host/database", false, func(s *Settings) *string { return &s.Store }},
	{"secret_key", "PENSTOCK_SECRET_KEY", "", "", true, func(s *Settings) *string { return &s.SecretKey }},
	{"durability", "PENSTOCK_DURABILITY", "dispatched", "what waits for the event store: settled, dispatched, overlapped or relaxed", false, func(s *Settings) *string { return &s.Durability }},
	{"profile", "PENSTOCK_PROFILE", "penstock", "set of defaults: penstock, or after other gateways autorouter, gproxy, orchestrator, sub2api", false, func(s *Settings) *string { return &s.Profile }},
	{"on_store_down", "PENSTOCK_ON_STORE_DOWN", "", "spool or reject: what an outage of the store does to requests; default spool with PostgreSQL, reject with sqlite", false, func(s *Settings) *string { return &s.OnStoreDown }},
	{"spool_max", "PENSTOCK_SPOOL_MAX", "", "bytes of events that may wait in the data folder during an outage, default 1073741824", false, func(s *Settings) *string { return &s.SpoolMax }},
	{"log_format", "PENSTOCK_LOG_FORMAT", "text", "text or json", false, func(s *Settings) *string { return &s.LogFormat }},
	{"log_level", "PENSTOCK_LOG_LEVEL", "info", "debug, info, warn or error", false, func(s *Settings) *string { return &s.LogLevel }},
}

// choices are what a setting may be.
var choices = []struct {
	name string
	of   []string
}{
	{"durability", []string{"settled", "dispatched", "overlapped", "relaxed"}},
	{"profile", catalog.Profiles()},
	{"store", []string{"sqlite", "postgres://…"}},
	{"on_store_down", []string{"spool", "reject"}},
	{"log_format", []string{"text", "json"}},
	{"log_level", []string{"debug", "info", "warn", "error"}},
}

// configFile is read when no other is named and it is there.
const configFile = "penstock.yaml"

func (s setting) flag() string { return strings.ReplaceAll(s.name, "_", "-") }

// AddSettings gives a command the flags of the named settings, and --config.
func AddSettings(cmd *cobra.Command, names ...string) {
	for _, s := range settings {
		if slices.Contains(names, s.name) && !s.secret {
			usage := s.usage + " (" + s.env
			if s.fallback != "" {
				usage += ", default " + s.fallback
			}
			cmd.Flags().String(s.flag(), "", usage+")")
		}
	}
	cmd.Flags().String("config", "", "settings file (PENSTOCK_CONFIG, default "+configFile+" where it is there)")
}

// LoadSettings reads the settings of a command from its flags, the environment and the settings file. What is wrong
// with them is a usage error that names the setting.
func LoadSettings(cmd *cobra.Command, getenv func(string) string) (Settings, error) {
	file, err := readConfig(cmd, getenv)
	if err != nil {
		return Settings{}, err
	}
	var all Settings
	for _, s := range settings {
		value := s.fallback
		if v, ok := file[s.name]; ok {
			value = v
		}
		if v := getenv(s.env); v != "" {
			value = v
		}
		if f := cmd.Flags().Lookup(s.flag()); f != nil && f.Changed {
			value = f.Value.String()
		}
		*s.field(&all) = value
	}
	return all, all.check()
}

func (s *Settings) check() error {
	for _, c := range choices {
		value := s.get(c.name)
		plain, _, _ := strings.Cut(value, "://")
		if plain == "postgresql" {
			plain = "postgres"
		}
		switch {
		case value == "" && fallback(c.name) == "": // depends on other settings
		case slices.Contains(c.of, value), plain != value && slices.Contains(c.of, plain+"://…"):
		default:
			return usagef("%s: %q is not one of %s", c.name, plain, strings.Join(c.of, ", "))
		}
	}
	if s.Data == "" {
		return usagef("data: is empty")
	}
	return nil
}

func fallback(name string) string {
	for _, line := range settings {
		if line.name == name {
			return line.fallback
		}
	}
	return ""
}

func (s *Settings) get(name string) string {
	for _, line := range settings {
		if line.name == name {
			return *line.field(s)
		}
	}
	return ""
}

// readConfig reads the settings file; without one there are no settings in it.
func readConfig(cmd *cobra.Command, getenv func(string) string) (map[string]string, error) {
	path := getenv("PENSTOCK_CONFIG")
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed {
		path = f.Value.String()
	}
	named := path != ""
	if !named {
		path = configFile
	}
	text, err := os.ReadFile(path)
	if err != nil {
		if !named && errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, usage(errors.Wrap(err, "read settings file"))
	}
	found, err := parseConfig(path, text)
	return found, usage(err)
}

func parseConfig(path string, text []byte) (map[string]string, error) {
	docs, err := parseDocuments(path, text)
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	if len(docs) > 1 {
		return nil, errors.Newf("%s: a settings file is one document", docs[1].at(""))
	}
	var fields map[string]any
	if err := json.Unmarshal(docs[0].json, &fields); err != nil {
		return nil, errors.Wrapf(err, "read %s", path)
	}
	found := map[string]string{}
	for name, value := range fields {
		known := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		if known < 0 {
			return nil, errors.Newf("%s: %s: unknown setting; known are %s", docs[0].at(name), name, strings.Join(settingNames(), ", "))
		}
		s, ok := value.(string)
		if !ok {
			return nil, errors.Newf("%s: %s: must be a string", docs[0].at(name), name)
		}
		found[name] = s
	}
	return found, nil
}

func settingNames() []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return names
}
