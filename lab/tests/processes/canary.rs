//! Plaintexts and keys that are easy to recognise, a run that uses everything, and then every byte the server and the
//! network had, and every byte the proxy wrote down, is searched for them.

use super::canaries::{Canaries, Kind};
use super::dice::Dice;
use super::process::PATIENCE;
use super::system::{Making, SMALL_TREES, System, files, seed};
use super::transcript;
use arras_keys::{Keyring, Unlock};
use arras_lab::wire_client::WireClient;
use arras_protocol::{Protocol, codec, write};
use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, doc};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The canaries of a run, as the application has them.
struct Data {
    database: String,
    collection: String,
    /// Field name and value of each type.
    fields: Vec<(String, Bson)>,
    text: String,
    id: ObjectId,
}

/// A name that is a canary.
fn name(what: &str, dice: &mut Dice, canaries: &mut Canaries) -> String {
    let name = dice.letters(24);
    canaries.add(what, Kind::Name, name.as_bytes());
    name
}

impl Data {
    fn new(dice: &mut Dice, canaries: &mut Canaries) -> Self {
        let database = name("database name", dice, canaries);
        let collection = name("collection name", dice, canaries);
        let text = dice.letters(60);
        let id = ObjectId::from_bytes(dice.bytes(12).try_into().unwrap());
        let binary = Binary { subtype: BinarySubtype::Generic, bytes: dice.bytes(40) };
        let inner = dice.letters(40);
        let values = [
            ("string", Bson::String(text.clone()), text.clone().into_bytes()),
            ("binary", Bson::Binary(binary.clone()), binary.bytes),
        ];
        let mut fields: Vec<(String, Bson)> = Vec::new();
        for (what, value, bytes) in values {
            fields.push((name(&format!("name of the {what} field"), dice, canaries), value));
            canaries.add(what, Kind::Secret, &bytes);
        }
        // Numbers below 2^62 are exact in every form; their text is a canary, too.
        let integer = i64::try_from(dice.next() >> 2).unwrap();
        let double = f64::from_bits((dice.next() & 0x000f_ffff_ffff_ffff) | 0x4120_0000_0000_0000);
        let date = i64::try_from(dice.next() >> 20).unwrap();
        for (what, value, bytes, digits) in [
            ("integer", Bson::Int64(integer), integer.to_le_bytes(), integer.to_string()),
            ("double", Bson::Double(double), double.to_le_bytes(), double.to_string()),
            ("date", Bson::DateTime(DateTime::from_millis(date)), date.to_le_bytes(), date.to_string()),
        ] {
            fields.push((name(&format!("name of the {what} field"), dice, canaries), value));
            canaries.add(what, Kind::Secret, &bytes);
            canaries.add_digits(&format!("{what} in digits"), Kind::Secret, digits.trim_start_matches('-'));
        }
        let array = name("name of the array field", dice, canaries);
        fields.push((array, Bson::Array(vec![doc! { "inner": &inner }.into(), Bson::String(inner.clone())])));
        canaries.add("string in an array", Kind::Secret, inner.as_bytes());
        canaries.add("object id", Kind::Secret, &id.bytes());
        Self { database, collection, fields, text, id }
    }

    fn document(&self) -> Document {
        let mut document = doc! { "_id": self.id };
        document.extend(self.fields.clone());
        document
    }

    fn field(&self, position: usize) -> &str {
        &self.fields[position].0
    }

    fn value(&self, position: usize) -> Bson {
        self.fields[position].1.clone()
    }
}

/// What only the proxy's machine may have.
fn add_keys(system: &System, canaries: &mut Canaries) {
    let key_file = std::fs::read_to_string(system.path("keyring.key")).unwrap();
    // As text, too: runs of digits are searched decoded.
    canaries.add("key file", Kind::Secret, &decoded_hexadecimal(key_file.trim()));
    let unlock = Unlock::KeyFile(system.path("keyring.key"));
    let keyring = Keyring::open(&system.path("config/keyring.json"), unlock).unwrap();
    canaries.add("root key", Kind::Secret, keyring.current().1.expose());
    for name in ["ca.key", "proxy.key"] {
        let pem = std::fs::read_to_string(system.path("config/certificates").join(name)).unwrap();
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = decoded_base64(&body);
        // The private scalar in its PKCS#8 wrapping: version 1, then 32 bytes.
        let mark = [2, 1, 1, 4, 32];
        let start = der.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
        canaries.add(&format!("{name}, private scalar"), Kind::Secret, &der[start..start + 32]);
        let text = &body.as_bytes()[start.div_ceil(3) * 4..(start + 32) / 3 * 4];
        canaries.add(&format!("{name}, as text"), Kind::Secret, text);
    }
}

fn decoded_hexadecimal(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decoded_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|digit| *digit == byte));
    let bits: Vec<usize> = digits.collect();
    let groups = bits.chunks(4).filter(|group| group.len() > 1);
    let of_group = |group: &[usize]| {
        let joined = group.iter().fold(0, |joined, digit| joined << 6 | digit) << (6 * (4 - group.len()));
        let bytes =
            [joined >> 16 & 255, joined >> 8 & 255, joined & 255].map(|byte| u8::try_from(byte).unwrap());
        bytes[..group.len() - 1].to_vec()
    };
    groups.flat_map(of_group).collect()
}

/// An application that uses everything, does some of it wrongly, and goes on when the server is killed.
struct Application<'a> {
    client: WireClient,
    data: &'a Data,
    refused: usize,
}

impl Application<'_> {
    fn run(&mut self, mut command: Document) {
        command.insert("$db", &self.data.database);
        if self.client.command(&command).is_err() {
            self.refused += 1;
        }
    }

    fn make_indexes(&mut self) {
        let index = |position: usize| {
            let name = format!("by_{position}");
            doc! { "key": { self.data.field(position): 1 }, "name": name }
        };
        let mut integer = index(2);
        integer.insert("storageEngine", doc! { "arras": { "sums": [self.data.field(3)] } });
        let both =
            doc! { "key": { self.data.field(0): 1, self.data.field(2): -1 }, "name": "both", "unique": true };
        let indexes = vec![index(0), integer, index(3), index(4), index(5), both];
        self.run(doc! { "createIndexes": &self.data.collection, "indexes": indexes });
    }

    fn write(&mut self) {
        let collection = self.data.collection.as_str();
        let (text, integer) = (self.data.field(0), self.data.field(2));
        self.run(doc! { "insert": collection, "documents": [self.data.document()] });
        self.run(doc! { "insert": collection, "documents": [self.data.document()] });
        let more: Vec<Document> = (0..60)
            .map(|number| {
                let mut document = self.data.document();
                document.insert("_id", number);
                document.insert(integer, number);
                document
            })
            .collect();
        self.run(doc! { "insert": collection, "documents": more });
        let id = doc! { "_id": self.data.id };
        let raise = doc! { "$inc": { integer: 1 }, "$push": { self.data.field(5): &self.data.text } };
        self.run(doc! { "update": collection, "updates": [{ "q": &id, "u": raise }] });
        let back = doc! { "$set": { integer: self.data.value(2) } };
        self.run(doc! { "update": collection, "updates": [{ "q": { text: &self.data.text }, "u": &back, "multi": true }] });
        self.run(doc! { "update": collection, "updates": [{ "q": &id, "u": &back }] });
        let upsert = doc! { "q": { text: format!("{}!", self.data.text) }, "u": &back, "upsert": true };
        self.run(doc! { "update": collection, "updates": [upsert] });
        let q = doc! { integer: { "$lt": 20 } };
        self.run(doc! { "findAndModify": collection, "query": &q, "sort": { integer: 1 }, "remove": true });
        self.run(doc! { "delete": collection, "deletes": [{ "q": { integer: 30 }, "limit": 0 }] });
    }

    fn read(&mut self) {
        let collection = self.data.collection.as_str();
        let (text, integer, double) = (self.data.field(0), self.data.field(2), self.data.field(3));
        let pattern = format!("^{}", &self.data.text[..20]);
        for filter in [
            doc! {},
            doc! { text: &self.data.text },
            doc! { text: { "$gte": &self.data.text[..10] } },
            doc! { text: { "$regex": pattern } },
            doc! { integer: { "$gte": 3, "$lt": self.data.value(2) } },
            doc! { double: { "$in": [self.data.value(3), 1.5] } },
            doc! { self.data.field(4): { "$lte": self.data.value(4) } },
            doc! { self.data.field(5): &self.data.text },
            doc! { self.data.field(1): self.data.value(1) },
            doc! { "_id": self.data.id },
        ] {
            let find = doc! { "find": collection, "filter": &filter, "sort": { integer: 1 }, "limit": 7 };
            self.run(doc! { "explain": &find });
            self.run(find);
            self.run(doc! { "count": collection, "query": &filter });
            let group = doc! { "$group": { "_id": null, "sum": { "$sum": format!("${double}") }, "n": { "$sum": 1 } } };
            let pipeline = vec![doc! { "$match": &filter }, group];
            self.run(doc! { "aggregate": collection, "pipeline": &pipeline, "cursor": {} });
        }
        self.run(doc! { "distinct": collection, "key": text });
        self.run(doc! { "listIndexes": collection });
        self.run(doc! { "listCollections": 1 });
        let cursor = doc! { "find": collection, "batchSize": 5, "$db": &self.data.database };
        assert!(self.client.query(&cursor).unwrap().len() > 5, "a cursor was read to its end");
    }

    /// Every refusal quotes what it refuses to the application; no log may.
    fn err(&mut self) {
        let collection = self.data.collection.as_str();
        let (text, value) = (self.data.field(0), self.data.text.as_str());
        for command in [
            doc! { "find": collection, "filter": { text: { "$near": value } } },
            doc! { "find": collection, "filter": { text: { "$regex": format!("({value}") } } },
            doc! { "find": collection, "filter": { "$expr": { "$unknown": value } } },
            doc! { "find": collection, "unknown": value },
            doc! { "find": collection, "sort": { text: value } },
            doc! { "find": collection, "filter": value },
            doc! { "update": collection, "updates": [{ "q": {}, "u": { "$inc": { text: value } }, "multi": true }] },
            doc! { "update": collection, "updates": [{ "q": { "_id": self.data.id }, "u": { "$inc": { text: 1 } } }] },
            doc! { "insert": collection, "documents": [{ text: { "$bad": value }, "_id": [value] }] },
            doc! { "aggregate": collection, "pipeline": [{ "$lookup": { "from": value } }], "cursor": {} },
            doc! { "createIndexes": collection, "indexes": [{ "key": { text: value }, "name": value }] },
            doc! { "getMore": 77_i64, "collection": collection },
        ] {
            let before = self.refused;
            self.run(command.clone());
            assert_eq!(self.refused, before + 1, "{command} is an error");
        }
    }

    /// A message that is no message, with values in it.
    fn send_nonsense(&self, address: &str) {
        let mut broken = vec![0_u8; 16];
        broken.extend_from_slice(self.data.text.as_bytes());
        let length = u32::try_from(broken.len()).unwrap();
        broken[..4].copy_from_slice(&length.to_le_bytes());
        for opcode in [2013_u32, 2004, 9999] {
            broken[12..16].copy_from_slice(&opcode.to_le_bytes());
            let mut client = WireClient::connect(address, PATIENCE).unwrap();
            client.send_raw(&broken).unwrap();
            let _ = client.receive();
        }
    }
}

fn contents(directory: &Path) -> Vec<u8> {
    let files = files(directory);
    assert!(!files.is_empty(), "{} has files", directory.display());
    files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn no_plaintext_and_no_key_is_where_the_server_or_a_log_has_it() {
    let mut dice = Dice::new(seed());
    let mut canaries = Canaries::default();
    let data = Data::new(&mut dice, &mut canaries);
    let in_traffic: Vec<String> = canaries.names().map(str::to_owned).collect();
    let making = Making { log_level: "trace", transcript: true, tap: true, configuration: SMALL_TREES };
    let mut system = System::start(making);
    add_keys(&system, &mut canaries);

    let mut application = Application { client: system.client(), data: &data, refused: 0 };
    application.client.record();
    application.make_indexes();
    application.write();
    application.read();
    application.err();
    application.send_nonsense(system.address());
    system.kill_server();
    application.write();
    system.start_server();
    application.write();
    application.read();
    let traffic = application.client.traffic().to_vec();
    drop(application);
    // Once more in another epoch; and a stop that leaves everything on disk.
    system.kill_proxy();
    system.start_proxy();
    let mut application = Application { client: system.client(), data: &data, refused: 0 };
    application.read();
    drop(application);
    for mut process in [system.proxy.take(), system.server.take()].into_iter().flatten() {
        process.signal("TERM");
        assert_eq!(process.ended(PATIENCE).and_then(|status| status.code()), Some(0));
    }

    let missing = canaries.missing(&traffic);
    // What is never sent as text is found as bytes.
    let missing: Vec<&&str> =
        missing.iter().filter(|name| in_traffic.iter().any(|known| known == **name)).collect();
    assert!(
        missing.iter().all(|name| name.ends_with("in digits")),
        "not recognised in plain traffic: {missing:?}"
    );

    let nobody = [Kind::Secret, Kind::Name];
    let haystacks = [
        ("server's data directory", contents(&system.path("server")), nobody.as_slice()),
        ("server's log", std::fs::read(system.server_log()).unwrap(), &nobody),
        ("transcript", std::fs::read(system.transcript()).unwrap(), &nobody),
        ("network", system.forwarder.tapped(), &nobody),
        ("proxy's data directory", contents(&system.path("proxy")), &nobody),
        ("proxy's log", std::fs::read(system.proxy_log()).unwrap(), &[Kind::Secret]),
    ];
    for (place, haystack, kinds) in &haystacks {
        eprintln!("{} bytes in the {place}", haystack.len());
        assert!(haystack.len() > 1000, "{place} has something to search");
        let found = canaries.find(haystack, kinds);
        assert!(found.is_empty(), "in the {place}: {found:?}");
    }
    system.assert_no_panic();
}

/// Documents of equal values that are compared.
const DOCUMENTS: usize = 200;

#[test]
fn equal_plaintexts_share_no_ciphertext_block() {
    let mut dice = Dice::new(seed());
    let making = Making { transcript: true, configuration: SMALL_TREES, ..Making::default() };
    let mut system = System::start(making);
    let mut client = system.client();
    let long = dice.letters(300);
    let index = |field: &str| doc! { "key": { field: 1 }, "name": field };
    let indexes = vec![index("text"), index("number")];
    client.command(&doc! { "createIndexes": "same", "indexes": &indexes, "$db": "blocks" }).unwrap();
    for number in 0..DOCUMENTS {
        let document = doc! { "_id": i32::try_from(number).unwrap(), "text": &long, "number": 7, "list": [&long, &long], "zeros": "0".repeat(256) };
        client.command(&doc! { "insert": "same", "documents": [document], "$db": "blocks" }).unwrap();
    }
    let update = doc! { "q": {}, "u": { "$set": { "text": &long, "again": &long } }, "multi": true };
    client.command(&doc! { "update": "same", "updates": [update], "$db": "blocks" }).unwrap();
    system.kill_server();

    let mut blocks: HashMap<[u8; 16], usize> = HashMap::new();
    let mut nonces: HashSet<Vec<u8>> = HashSet::new();
    let (mut sealed, mut of_documents) = (0, 0);
    for call in transcript::read(&system.transcript()) {
        if call.protocol != write::Write::ID.0 {
            continue;
        }
        let request: write::Request = codec::decode(&call.request).unwrap();
        for (step, blob) in request
            .steps
            .iter()
            .flat_map(|step| transcript::sealed(step).into_iter().map(move |blob| (step, blob)))
        {
            sealed += 1;
            of_documents += usize::from(matches!(step, write::Step::Documents(_)));
            assert!(nonces.insert(blob.as_slice()[..12].to_vec()), "a nonce came twice");
            // Behind the nonce; the tag is a block, too.
            for block in blob.as_slice()[12..].as_chunks::<16>().0 {
                let before = blocks.insert(*block, sealed);
                assert!(before.is_none(), "blobs {before:?} and {sealed} have a block in common");
            }
        }
    }
    // Each document is sealed when it is inserted and when it is updated, each time its values and its header.
    assert_eq!(of_documents, 2 * 2 * DOCUMENTS, "blobs of documents");
    // And of both indexes at least the bucket that each inserted document's entry is in.
    let of_indexes = sealed - of_documents;
    assert!(of_indexes >= indexes.len() * DOCUMENTS, "{of_indexes} blobs of indexes were compared");
}
