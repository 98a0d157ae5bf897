BEGIN TRANSACTION;
CREATE TABLE tensorucb_answer (
	campaign BIGINT NOT NULL, 
	"key" TEXT NOT NULL, 
	request TEXT NOT NULL, 
	status BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	hash BIGINT NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE tensorucb_blob (
	campaign BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (campaign, name)
);
INSERT INTO "tensorucb_blob" VALUES(1,'graph',X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF');
INSERT INTO "tensorucb_blob" VALUES(1,'snapshot/3',X'');
INSERT INTO "tensorucb_blob" VALUES(2,'graph',X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF');
INSERT INTO "tensorucb_blob" VALUES(2,'snapshot/3',X'');
CREATE TABLE tensorucb_campaign (
	campaign INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	settings TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT tensorucb_campaign_name UNIQUE (name)
);
INSERT INTO "tensorucb_campaign" VALUES(1,'spring','{"policy": "tensor_ucb", "seed": 7}',1.25);
INSERT INTO "tensorucb_campaign" VALUES(2,'autumn','{"policy": "tensor_ucb", "seed": 7}',1.25);
CREATE TABLE tensorucb_checksum (
	campaign BIGINT NOT NULL, 
	part TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	rows BIGINT NOT NULL, 
	sum BIGINT NOT NULL, 
	PRIMARY KEY (campaign, part, number)
)
 WITHOUT ROWID

;
INSERT INTO "tensorucb_checksum" VALUES(0,'campaign',0,2,3311764114);
INSERT INTO "tensorucb_checksum" VALUES(0,'secret',0,1,3790562973);
INSERT INTO "tensorucb_checksum" VALUES(1,'blob',0,2,6029804086);
INSERT INTO "tensorucb_checksum" VALUES(1,'edge',1,2,4208686005794139123);
INSERT INTO "tensorucb_checksum" VALUES(1,'event',1,1,1082201983);
INSERT INTO "tensorucb_checksum" VALUES(1,'event',2,1,3359632059);
INSERT INTO "tensorucb_checksum" VALUES(1,'node',1,2,408327828053845215);
INSERT INTO "tensorucb_checksum" VALUES(1,'round',1,1,3253319543);
INSERT INTO "tensorucb_checksum" VALUES(1,'user',0,4,4475665119911136709);
INSERT INTO "tensorucb_checksum" VALUES(2,'blob',0,2,6029804086);
INSERT INTO "tensorucb_checksum" VALUES(2,'edge',1,2,4208686005794139123);
INSERT INTO "tensorucb_checksum" VALUES(2,'event',1,1,1082201983);
INSERT INTO "tensorucb_checksum" VALUES(2,'event',2,1,3359632059);
INSERT INTO "tensorucb_checksum" VALUES(2,'node',1,2,408327828053845215);
INSERT INTO "tensorucb_checksum" VALUES(2,'round',1,1,3253319543);
INSERT INTO "tensorucb_checksum" VALUES(2,'user',0,4,4475665119911136709);
CREATE TABLE tensorucb_edge_response (
	campaign BIGINT NOT NULL, 
	round BIGINT NOT NULL, 
	source BIGINT NOT NULL, 
	target BIGINT NOT NULL, 
	outcome DOUBLE NOT NULL, 
	time DOUBLE, 
	event_id TEXT, 
	seq BIGINT NOT NULL, 
	PRIMARY KEY (campaign, round, source, target)
)
 WITHOUT ROWID

;
INSERT INTO "tensorucb_edge_response" VALUES(1,1,0,3,0.0,NULL,NULL,1);
INSERT INTO "tensorucb_edge_response" VALUES(1,1,2,1,1.0,11.5,'e-1',1);
INSERT INTO "tensorucb_edge_response" VALUES(2,1,0,3,0.0,NULL,NULL,1);
INSERT INTO "tensorucb_edge_response" VALUES(2,1,2,1,1.0,11.5,'e-1',1);
CREATE TABLE tensorucb_event (
	campaign BIGINT NOT NULL, 
	seq BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	round BIGINT, 
	payload TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	PRIMARY KEY (campaign, seq)
);
INSERT INTO "tensorucb_event" VALUES(1,1,'ask',1,'{"k": 2, "seeds": [7, "7"]}',10.5);
INSERT INTO "tensorucb_event" VALUES(1,2,'note',NULL,'{}',11.0);
INSERT INTO "tensorucb_event" VALUES(2,1,'ask',1,'{"k": 2, "seeds": [7, "7"]}',10.5);
INSERT INTO "tensorucb_event" VALUES(2,2,'note',NULL,'{}',11.0);
CREATE TABLE tensorucb_logout (
	login TEXT NOT NULL, 
	ends DOUBLE NOT NULL, 
	PRIMARY KEY (login)
);
CREATE TABLE tensorucb_node_event (
	campaign BIGINT NOT NULL, 
	round BIGINT NOT NULL, 
	user_key BIGINT NOT NULL, 
	time DOUBLE, 
	event_id TEXT, 
	seq BIGINT NOT NULL
);
INSERT INTO "tensorucb_node_event" VALUES(1,1,3,12.5,'n-1',1);
INSERT INTO "tensorucb_node_event" VALUES(1,1,3,NULL,NULL,1);
INSERT INTO "tensorucb_node_event" VALUES(2,1,3,12.5,'n-1',1);
INSERT INTO "tensorucb_node_event" VALUES(2,1,3,NULL,NULL,1);
CREATE TABLE tensorucb_round (
	campaign BIGINT NOT NULL, 
	number BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	status TEXT NOT NULL, 
	opened DOUBLE NOT NULL, 
	deadline DOUBLE, 
	closed DOUBLE, 
	revision BIGINT NOT NULL, 
	request_id TEXT, 
	payload TEXT NOT NULL, 
	PRIMARY KEY (campaign, number), 
	CONSTRAINT tensorucb_round_id UNIQUE (campaign, id)
);
INSERT INTO "tensorucb_round" VALUES(1,1,'r-1','open',10.5,99.5,NULL,1,'ask-1','{"seeds": [1, 2]}');
INSERT INTO "tensorucb_round" VALUES(2,1,'r-1','open',10.5,99.5,NULL,1,'ask-1','{"seeds": [1, 2]}');
CREATE TABLE tensorucb_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT tensorucb_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "tensorucb_schema" VALUES('0004');
CREATE TABLE tensorucb_secret (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "tensorucb_secret" VALUES('service','0b5a9eb6ebf885f86fc28dacce6a12dbf8c500793e95e7c5e04dc7f38933519d');
CREATE TABLE tensorucb_token (
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE tensorucb_user (
	campaign BIGINT NOT NULL, 
	user_key BIGINT NOT NULL, 
	id_integer BIGINT, 
	id_text TEXT, 
	PRIMARY KEY (campaign, user_key)
)
 WITHOUT ROWID

;
INSERT INTO "tensorucb_user" VALUES(1,0,7,NULL);
INSERT INTO "tensorucb_user" VALUES(1,1,NULL,'7');
INSERT INTO "tensorucb_user" VALUES(1,2,NULL,'Zoë ✓');
INSERT INTO "tensorucb_user" VALUES(1,3,-9223372036854775808,NULL);
INSERT INTO "tensorucb_user" VALUES(2,0,7,NULL);
INSERT INTO "tensorucb_user" VALUES(2,1,NULL,'7');
INSERT INTO "tensorucb_user" VALUES(2,2,NULL,'Zoë ✓');
INSERT INTO "tensorucb_user" VALUES(2,3,-9223372036854775808,NULL);
CREATE UNIQUE INDEX tensorucb_user_id_integer ON tensorucb_user (campaign, id_integer) WHERE id_integer IS NOT NULL;
CREATE UNIQUE INDEX tensorucb_user_id_text ON tensorucb_user (campaign, id_text) WHERE id_text IS NOT NULL;
CREATE UNIQUE INDEX tensorucb_round_request ON tensorucb_round (campaign, request_id) WHERE request_id IS NOT NULL;
CREATE UNIQUE INDEX tensorucb_edge_response_event ON tensorucb_edge_response (campaign, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX tensorucb_node_event_round ON tensorucb_node_event (campaign, round, user_key, time);
CREATE UNIQUE INDEX tensorucb_node_event_event ON tensorucb_node_event (campaign, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX tensorucb_round_status ON tensorucb_round (status, deadline, campaign);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('tensorucb_campaign',2);
COMMIT;
